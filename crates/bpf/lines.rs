// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes the lines of their sources out of compiled programs.
//!
//! clang writes the text of each line into an object's BTF, and its position for each
//! instruction. The kernel shows them in messages of its verifier, and needs them for nothing.
//! They are half of an object. What the kernel and libbpf need stays: the types, and the
//! positions of functions and of accesses that libbpf adjusts to the kernel's types
//! (Documentation/bpf/btf.rst, section 4).

use std::ffi::CStr;

/// The size of the header of an ELF file, and of the header of a section.
const HEADER: usize = 64;

/// A section without bytes in the file.
const NOBITS: u32 = 8;

/// Returns an object without lines; none if it is no ELF file of 64 bits in little-endian byte
/// order, or if its BTF is damaged.
pub(crate) fn without_lines(object: &[u8]) -> Option<Vec<u8>> {
    if !object.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(long(object, 40)?).ok()?;
    let count = usize::from(short(object, 60)?);
    let mut headers: Vec<Vec<u8>> = Vec::new();
    let mut contents: Vec<Vec<u8>> = Vec::new();
    for header in object.get(table..table + HEADER * count)?.chunks(HEADER) {
        let at = usize::try_from(long(header, 24)?).ok()?;
        let size = usize::try_from(long(header, 32)?).ok()?;
        let size = if word(header, 4)? == NOBITS { 0 } else { size };
        headers.push(header.to_vec());
        contents.push(object.get(at..at + size)?.to_vec());
    }
    let names = contents.get(usize::from(short(object, 62)?))?.clone();
    let position = |name: &CStr| {
        headers.iter().position(|header| {
            let at = word(header, 0).map(|at| at as usize);
            at.and_then(|at| text(&names, at)) == Some(name.to_bytes())
        })
    };
    if let (Some(types), Some(positions)) = (position(c".BTF"), position(c".BTF.ext")) {
        let texts = cut(&mut contents[positions])?;
        blank(&mut contents[types], &texts)?;
    }
    // Only linkers of several objects read these. libbpf skips them.
    for name in [c".rel.BTF", c".rel.BTF.ext"] {
        if let Some(index) = position(name) {
            contents[index].clear();
        }
    }
    assembled(object.get(..HEADER)?, headers, &contents)
}

/// Cuts the part with the lines out of the section `.BTF.ext`, and returns where the lines' texts
/// begin among the strings of the section `.BTF`.
fn cut(positions: &mut Vec<u8>) -> Option<Vec<usize>> {
    let header = word(positions, 4)? as usize;
    let (at, size) = (word(positions, 16)?, word(positions, 20)?);
    // The third part is that of adjusted accesses.
    let after = word(positions, 24)?;
    let lines = header + at as usize..header + (at + size) as usize;
    let mut rest = positions.get(lines.clone())?;
    let mut texts = Vec::new();
    if let Some(record) = word(rest, 0) {
        rest = &rest[4..];
        while !rest.is_empty() {
            // The number of lines of one section follows the section's name.
            let bytes = record as usize * word(rest, 4)? as usize;
            for line in rest.get(8..8 + bytes)?.chunks(record as usize) {
                texts.push(word(line, 8)? as usize);
            }
            rest = &rest[8 + bytes..];
        }
    }
    positions.drain(lines);
    positions[20..24].fill(0);
    let moved = if after > at { after - size } else { after };
    positions[24..28].copy_from_slice(&moved.to_le_bytes());
    Some(texts)
}

/// Overwrites these strings of the section `.BTF` with zeros, which take no space once packed.
/// Equal strings are stored once, and a line may be the same as a name. A text with one of these
/// characters is no name of a type, of a member, of a section or of an access.
fn blank(types: &mut [u8], texts: &[usize]) -> Option<()> {
    let strings = word(types, 4)? as usize + word(types, 16)? as usize;
    for start in texts {
        let start = strings + start;
        let length = text(types, start)?.len();
        let text = &mut types[start..start + length];
        if text.iter().any(|byte| b";(){}=,".contains(byte)) {
            text.fill(0);
        }
    }
    Some(())
}

/// Writes an ELF file of these sections.
fn assembled(start: &[u8], mut headers: Vec<Vec<u8>>, contents: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut file = start.to_vec();
    for (header, content) in headers.iter_mut().zip(contents) {
        let alignment = usize::try_from(long(header, 48)?).ok()?.max(1);
        file.resize(file.len().next_multiple_of(alignment), 0);
        header[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
        if word(header, 4)? != NOBITS {
            header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
        }
        file.extend(content);
    }
    file.resize(file.len().next_multiple_of(8), 0);
    let table = (file.len() as u64).to_le_bytes();
    file[40..48].copy_from_slice(&table);
    file.extend(headers.concat());
    Some(file)
}

/// Returns a string that ends with a zero.
fn text(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let text = CStr::from_bytes_until_nul(bytes.get(at..)?);
    text.ok().map(CStr::to_bytes)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let found = bytes.get(at..)?.first_chunk();
    found.copied().map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..)?.first_chunk();
    found.copied().map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..)?.first_chunk();
    found.copied().map(u64::from_le_bytes)
}
