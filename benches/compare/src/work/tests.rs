use super::{Maker, Progress, Reader, Totals};

/// Lengths that the loops are built for, and others.
const LENGTHS: [usize; 6] = [8, 9, 100, 1_000, 4_099, 32_768];

#[test]
fn what_is_made_is_what_is_read() {
    for bytes in LENGTHS {
        let (mut maker, progress) = (Maker::new(bytes), Progress::default());
        let mut reader = Reader::new(bytes, &progress);
        for records in [1, 7] {
            let mut block = Vec::new();
            maker.append(&mut block, records);
            assert_eq!(block.len(), records * bytes);
            assert_eq!(block[8..bytes], maker.pattern()[8..]);
            reader.block(&block).unwrap();
            block.fill(0);
            maker.fill(&mut block);
            assert_eq!(block[8..bytes], maker.pattern()[8..]);
            reader.block(&block).unwrap();
        }
        assert_eq!(maker.totals(), Totals { records: 16, sum: 120 }, "{bytes} bytes");
        assert_eq!(reader.totals(), maker.totals());
        assert_eq!(progress.records(), 16);
    }
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    let (mut maker, progress) = (Maker::new(100), Progress::default());
    let mut stream = Vec::new();
    maker.append(&mut stream, 50);
    let mut reader = Reader::new(100, &progress);
    let (mut buffer, mut have) = (vec![0; 1_000], 0);
    for part in stream.chunks(333) {
        buffer[have..have + part.len()].copy_from_slice(part);
        have = reader.stream(&mut buffer[..have + part.len()]).unwrap();
    }
    assert_eq!((have, reader.totals()), (0, maker.totals()));
}

#[test]
fn a_part_of_a_record_is_an_error() {
    let progress = Progress::default();
    let mut reader = Reader::new(100, &progress);
    assert!(reader.block(&[0; 150]).is_err());
    assert!(reader.record(&[0; 99]).is_err());
    assert_eq!(reader.totals(), Totals::default());
}

#[test]
fn a_changed_number_shows_in_the_sum() {
    let (mut maker, progress) = (Maker::new(8), Progress::default());
    let mut block = Vec::new();
    maker.append(&mut block, 10);
    block[8] += 1;
    let mut reader = Reader::new(8, &progress);
    reader.block(&block).unwrap();
    assert_ne!(reader.totals(), maker.totals());
}
