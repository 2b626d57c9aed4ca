//! Recordings: events as JSON Lines. A malformed line is an error that names its number, or, read leniently, is
//! skipped and counted. Lines are bounded, so that a hostile file cannot take the memory.

use std::io::{self, BufRead, Write};

use crate::event::Event;
use crate::lines;

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 16 << 20;

/// Why a line could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Not an event.
    #[error("line {line}: {source}")]
    Malformed {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Longer than [`MAX_LINE`].
    #[error("line {line}: longer than {MAX_LINE} bytes")]
    TooLong {
        /// Its number, from 1.
        line: u64,
    },
    /// The file could not be read on.
    #[error("reading line {line}: {source}")]
    Io {
        /// The number of the line that was wanted.
        line: u64,
        /// What the system says.
        source: io::Error,
    },
}

/// Reads events line by line. Blank lines are passed over. After an I/O error the iterator ends.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    bytes: u64,
    buffer: Vec<u8>,
    done: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        Reader { input, line: 0, bytes: 0, buffer: Vec::new(), done: false }
    }

    /// Bytes taken from the input so far, for progress.
    pub fn bytes_read(&self) -> u64 {
        self.bytes
    }

    /// The number of the line read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads one line into the buffer, bounded. `Ok(None)` at the end of the file.
    fn fill(&mut self) -> Result<Option<()>, LineError> {
        self.line += 1;
        let line = self.line;
        let limit = MAX_LINE as u64 + 1;
        let (read, over) = lines::bounded(&mut self.input, limit, &mut self.buffer)
            .map_err(|source| LineError::Io { line, source })?;
        self.bytes += read + over;
        if read == 0 {
            return Ok(None);
        }
        if read == limit && self.buffer.last() != Some(&b'\n') {
            return Err(LineError::TooLong { line });
        }
        Ok(Some(()))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            match self.fill() {
                Ok(None) => self.done = true,
                Ok(Some(())) if self.buffer.iter().all(u8::is_ascii_whitespace) => {}
                Ok(Some(())) => {
                    let line = self.line;
                    return Some(
                        serde_json::from_slice(&self.buffer)
                            .map_err(|source| LineError::Malformed { line, source }),
                    );
                }
                Err(e) => {
                    self.done = matches!(e, LineError::Io { .. });
                    return Some(Err(e));
                }
            }
        }
        None
    }
}

/// Writes one event as one line.
///
/// # Errors
/// The output refuses the bytes.
pub fn write(out: &mut impl Write, event: &Event) -> io::Result<()> {
    serde_json::to_writer(&mut *out, event)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"at":"2026-08-09T06:05:03Z","host":"h","subject":"s","kind":"ready"}"#;

    #[test]
    fn names_the_line_and_goes_on() {
        let text = format!("{GOOD}\n\n{{\"at\":\n{GOOD}");
        let got: Vec<_> = Reader::new(text.as_bytes()).collect();
        assert_eq!(got.len(), 3);
        assert!(got[0].is_ok() && got[2].is_ok());
        assert!(got[1].as_ref().unwrap_err().to_string().starts_with("line 3: "));
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut text = vec![b'x'; MAX_LINE + 100];
        text.extend_from_slice(b"\n");
        text.extend_from_slice(GOOD.as_bytes());
        let got: Vec<_> = Reader::new(&text[..]).collect();
        assert!(matches!(got[0], Err(LineError::TooLong { line: 1 })));
        assert!(got[1].is_ok());
    }

    #[test]
    fn invalid_utf8_is_malformed_not_a_panic() {
        let got: Vec<_> = Reader::new(&b"\xff\xfe{}\n"[..]).collect();
        assert!(matches!(got[0], Err(LineError::Malformed { line: 1, .. })));
    }
}
