//! How far a batch has been sent.

use super::{Batch, Part};
use std::io::IoSlice;

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Sending {
    batch: Box<Batch>,
    /// The part that comes next, and how much of it has gone.
    part: usize,
    offset: usize,
    left: usize,
}

impl Part {
    /// The part's bytes.
    pub(super) fn of<'a>(&'a self, staging: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Staged(range) => &staging[range.clone()],
            Self::Segment(lent) => lent,
        }
    }
}

impl Sending {
    pub(super) fn new(batch: Box<Batch>) -> Self {
        let left = batch.parts.iter().map(|part| part.of(&batch.staging).len()).sum();
        debug_assert!(left == batch.bytes && left > 0, "a batch knows its bytes, and has some");
        Self { batch, part: 0, offset: 0, left }
    }

    /// Bytes that are still to be sent.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Puts what comes next into `slices`, as far as they go; says how many of them it used.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut offset = self.offset;
        let mut used = 0;
        for part in &self.batch.parts[self.part..] {
            let bytes = &part.of(&self.batch.staging)[offset..];
            offset = 0;
            if used == slices.len() {
                break;
            }
            if !bytes.is_empty() {
                slices[used] = IoSlice::new(bytes);
                used += 1;
            }
        }
        used
    }

    /// A copy of what comes next, at most so many bytes of it.
    #[cfg(all(test, not(loom)))]
    pub(super) fn gather(&self, most: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 16];
        let used = self.slices(&mut slices);
        let mut bytes = Vec::new();
        for slice in &slices[..used] {
            bytes.extend_from_slice(&slice[..slice.len().min(most - bytes.len())]);
        }
        bytes
    }

    /// So many bytes have gone.
    pub(super) fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.left, "no more is sent than there is");
        self.left -= bytes;
        self.offset += bytes;
        while let Some(part) = self.batch.parts.get(self.part) {
            let len = part.of(&self.batch.staging).len();
            if self.offset < len {
                break;
            }
            self.offset -= len;
            self.part += 1;
        }
    }

    pub(super) fn into_batch(self) -> Box<Batch> {
        self.batch
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn batch(lens: &[usize]) -> Box<Batch> {
        let mut batch = Batch::default();
        for len in lens {
            let from = batch.staging.len();
            batch.staging.extend((from..from + len).map(|at| at as u8));
            batch.parts.push(Part::Staged(from..from + len));
        }
        batch.bytes = batch.staging.len();
        Box::new(batch)
    }

    /// Every way to cut a batch in three, with every number of slices a call: the bytes come in order.
    #[test]
    fn however_it_is_cut_the_bytes_come_in_order() {
        let lens = [3, 0, 1, 0, 0, 5, 2, 0];
        for slices_max in 1..=5 {
            for first in 0..=11 {
                for second in first..=11 {
                    let mut sending = Sending::new(batch(&lens));
                    let mut sent = Vec::new();
                    for goal in [first, second, 11] {
                        while sent.len() < goal {
                            let mut slices = [IoSlice::new(&[]); 5];
                            let used = sending.slices(&mut slices[..slices_max]);
                            let bytes: Vec<u8> =
                                slices[..used].iter().flat_map(|slice| slice.to_vec()).collect();
                            let taken = bytes.len().min(goal - sent.len());
                            assert!(taken > 0);
                            sent.extend_from_slice(&bytes[..taken]);
                            sending.advance(taken);
                            assert_eq!(sending.left(), 11 - sent.len());
                        }
                    }
                    assert!(sent.iter().copied().eq(0..11));
                    assert_eq!(sending.slices(&mut [IoSlice::new(&[]); 5]), 0);
                    assert_eq!(sending.into_batch().bytes, 11);
                }
            }
        }
    }
}
