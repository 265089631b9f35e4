// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of a recording, version 1.
//!
//! It begins with lines of text: `weirgate aqm recording 1`, then a name and a value on each
//! line (`discipline`, `device`, `kernel`, `verdicts yes|no`, `order little|big`), then an empty
//! line. The rest is binary, in that byte order. Each record has its length in 4 bytes, followed
//! by the record as in `aqm/host/record.h`. The end is a length of 0 and the CRC-32 of
//! everything before it, which reveals a truncated file.

use crate::record::{EventKind, Record};
use std::fmt::Write as _;
use thiserror::Error;

const MAGIC: &str = "weirgate aqm recording 1";

/// The longest record that a reader accepts; a whole instance is shorter.
const LONGEST: usize = 1 << 24;

/// The header of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// The recorded discipline; empty for a capture of packets.
    pub discipline: String,
    /// The device or file that was recorded.
    pub device: String,
    /// The kernel's release; empty if it is unknown.
    pub kernel: String,
    /// Whether it contains states and verdicts; otherwise it contains only packets.
    pub verdicts: bool,
}

/// The error of a file that is not a recording, or is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FileError {
    /// The header is incomplete or malformed.
    #[error("line {line}: {what}")]
    Header {
        /// The number of the line.
        line: usize,
        /// The problem.
        what: String,
    },
    /// The file is truncated.
    #[error("byte {0}: the recording was cut off")]
    Short(usize),
    /// The checksum differs.
    #[error("the recording was changed: its checksum is another one")]
    Checksum,
}

/// Writes a recording piece by piece.
#[derive(Debug, Default)]
pub struct Writer {
    checksum: Checksum,
}

impl Writer {
    /// Returns the first bytes of the file.
    pub fn begin(&mut self, about: &About) -> Vec<u8> {
        let order = if cfg!(target_endian = "little") {
            "little"
        } else {
            "big"
        };
        let verdicts = if about.verdicts { "yes" } else { "no" };
        let mut text = format!("{MAGIC}\norder {order}\nverdicts {verdicts}\n");
        for (name, value) in [
            ("discipline", &about.discipline),
            ("device", &about.device),
            ("kernel", &about.kernel),
        ] {
            let value = value.replace(['\n', '\r'], " ");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name} {value}");
        }
        text.push('\n');
        self.counted(text.into_bytes())
    }

    /// Returns the bytes of one record.
    pub fn record(&mut self, record: &[u8]) -> Vec<u8> {
        let mut bytes = (record.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(record);
        self.counted(bytes)
    }

    /// Returns the last bytes of the file.
    pub fn end(mut self) -> Vec<u8> {
        let mut bytes = self.counted(0_u32.to_ne_bytes().to_vec());
        bytes.extend(self.checksum.value().to_ne_bytes());
        bytes
    }

    fn counted(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.checksum.update(&bytes);
        bytes
    }
}

/// A parsed recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording<'b> {
    /// The header.
    pub about: About,
    /// The records, in the form of [`crate::Mirror::take`].
    pub records: Vec<&'b [u8]>,
}

impl<'b> Recording<'b> {
    /// Parses a whole file.
    pub fn read(bytes: &'b [u8]) -> Result<Self, FileError> {
        let (about, mut at) = header(bytes)?;
        let mut records = Vec::new();
        loop {
            let short = FileError::Short(bytes.len());
            let length = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
            let length = length.map(|four| u32::from_ne_bytes(*four) as usize);
            let length = length.ok_or_else(|| short.clone())?;
            at += 4;
            if length == 0 {
                let mut checksum = Checksum::default();
                checksum.update(&bytes[..at]);
                let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
                let found = found.ok_or(short)?;
                return if u32::from_ne_bytes(*found) == checksum.value() && bytes.len() == at + 4 {
                    Ok(Self { about, records })
                } else {
                    Err(FileError::Checksum)
                };
            }
            if length > LONGEST {
                return Err(FileError::Checksum);
            }
            records.push(bytes.get(at..at + length).ok_or(short)?);
            at += length;
        }
    }

    /// Returns the packets that arrived, in order, without verdicts.
    pub fn arrivals(&self) -> Vec<Record> {
        // Skip the parts of a state. They are recognised by their number, because an instance
        // can have the length of a record.
        let mut parts = 0;
        let mut arrivals = Vec::new();
        for bytes in &self.records {
            if parts > 0 {
                parts -= 1;
                continue;
            }
            let Some(record) = Record::from_bytes(bytes) else {
                continue;
            };
            match record.kind() {
                Some(EventKind::State) => parts = record.slot as usize + 1,
                Some(EventKind::Arrive) => arrivals.push(record),
                _ => {}
            }
        }
        arrivals
    }
}

/// Parses the header, and returns where the records begin.
fn header(bytes: &[u8]) -> Result<(About, usize), FileError> {
    let mut about = About::default();
    let mut at = 0;
    let wrong = |line: usize, what: &str| FileError::Header {
        line,
        what: what.to_owned(),
    };
    for line in 1..=32 {
        let rest = &bytes[at..];
        let end = rest.iter().take(4_096).position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| wrong(line, "this is no recording"))?;
        let text = std::str::from_utf8(&rest[..end]).map_err(|_| wrong(line, "this is no text"))?;
        at += end + 1;
        if line == 1 {
            if text != MAGIC {
                let what = format!("`{MAGIC}` is expected there");
                return Err(FileError::Header { line, what });
            }
            continue;
        }
        if text.is_empty() {
            return Ok((about, at));
        }
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        match name {
            "discipline" => value.clone_into(&mut about.discipline),
            "device" => value.clone_into(&mut about.device),
            "kernel" => value.clone_into(&mut about.kernel),
            "verdicts" => about.verdicts = value == "yes",
            "order" if (value == "little") == cfg!(target_endian = "little") => {}
            "order" => {
                return Err(wrong(
                    line,
                    "it was made by a machine of the other byte order",
                ));
            }
            _ => return Err(wrong(line, &format!("`{name}` is not known"))),
        }
    }
    Err(wrong(32, "the lines of text do not end"))
}

/// CRC-32 of IEEE 802.3.
#[derive(Debug)]
struct Checksum(crc32fast::Hasher);

impl Default for Checksum {
    fn default() -> Self {
        Self(crc32fast::Hasher::new())
    }
}

impl Checksum {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;
    use proptest::prelude::*;

    fn file() -> Vec<u8> {
        let mut writer = Writer::default();
        let about = About {
            discipline: "red".to_owned(),
            device: "wan0".to_owned(),
            kernel: String::new(),
            verdicts: false,
        };
        let mut bytes = writer.begin(&about);
        for number in 0..3 {
            let record = Record::of_packet(&Packet::default(), 0, number);
            bytes.extend(writer.record(&record.to_bytes()));
        }
        bytes.extend(writer.end());
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = file();
        let recording = Recording::read(&bytes).expect("a recording");
        assert_eq!(recording.about.device, "wan0");
        assert_eq!(recording.arrivals().len(), 3);
    }

    #[test]
    fn damage_is_found() {
        let bytes = file();
        for end in 0..bytes.len() {
            assert!(Recording::read(&bytes[..end]).is_err(), "cut off at {end}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(Recording::read(&other).is_err(), "changed at {at}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = format!("{MAGIC}\n\n").into_bytes();
            bytes.extend(tail);
            let _ = Recording::read(&bytes);
        }
    }
}
