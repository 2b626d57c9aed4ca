//! One line of bounded length from a reader: a file without newlines costs no memory. What the line says is the caller's.

use std::io::{self, BufRead, Read};

/// Reads a line into `line`, newline included, at most `limit` bytes of it; the rest is passed over. How many bytes were read, 0 at
/// the end, and how many were passed over.
///
/// # Errors
/// The reader's.
pub fn bounded(input: &mut impl BufRead, limit: u64, line: &mut Vec<u8>) -> io::Result<(u64, u64)> {
    line.clear();
    let read = input.by_ref().take(limit).read_until(b'\n', line)? as u64;
    let over = if read == limit && line.last() != Some(&b'\n') { skip(input)? } else { 0 };
    Ok((read, over))
}

/// Passes over what is left of a line.
fn skip(input: &mut impl BufRead) -> io::Result<u64> {
    let mut over = 0;
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return Ok(over);
        }
        let (used, ended) = match chunk.iter().position(|b| *b == b'\n') {
            Some(i) => (i + 1, true),
            None => (chunk.len(), false),
        };
        input.consume(used);
        over += used as u64;
        if ended {
            return Ok(over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_at_and_beyond_the_limit() {
        for capacity in [1, 3, 100] {
            let mut input = io::BufReader::with_capacity(capacity, &b"ab\nabcd\nabc\nabc"[..]);
            let (mut line, mut told) = (Vec::new(), Vec::new());
            loop {
                let (read, over) = bounded(&mut input, 3, &mut line).unwrap();
                if read == 0 {
                    break;
                }
                told.push((String::from_utf8(line.clone()).unwrap(), over));
            }
            let want = [("ab\n", 0), ("abc", 2), ("abc", 1), ("abc", 0)];
            assert_eq!(told, want.map(|(l, n)| (l.to_string(), n)), "{capacity}");
        }
    }
}
