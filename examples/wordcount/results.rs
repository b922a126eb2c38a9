//! A consumer's counts on their way to the process that asked for them: words are any bytes, of any length.

use crate::Counts;
use crate::shuffle::Shuffled;
use std::io::{self, BufRead, BufWriter, ErrorKind, Read, Write};

/// Writes records counted, number of words, and each word as its count, length and bytes; numbers in 8 bytes.
pub(crate) fn write(shuffled: &Shuffled, output: impl Write) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    output.write_all(&shuffled.records.to_le_bytes())?;
    output.write_all(&(shuffled.counts.len() as u64).to_le_bytes())?;
    for (word, count) in &shuffled.counts {
        output.write_all(&count.to_le_bytes())?;
        output.write_all(&(word.len() as u64).to_le_bytes())?;
        output.write_all(word)?;
    }
    output.flush()
}

/// Reads what [`write`] wrote, to the end of the input.
pub(crate) fn read(mut input: impl BufRead) -> io::Result<Shuffled> {
    let records = number(&mut input)?;
    let words = number(&mut input)?;
    let mut counts = Counts::new();
    for _ in 0..words {
        let count = number(&mut input)?;
        let bytes = number(&mut input)?;
        let mut word = Vec::new();
        input.by_ref().take(bytes).read_to_end(&mut word)?;
        if word.len() as u64 != bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        counts.insert(word.into(), count);
    }
    if !input.fill_buf()?.is_empty() {
        return Err(io::Error::new(ErrorKind::InvalidData, "there is more than was announced"));
    }
    Ok(Shuffled { counts, records })
}

fn number(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
