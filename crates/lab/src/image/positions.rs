// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes from a program what changes with every comment in its sources, but never changes what
//! it does: lines and columns of panic messages, and the build id.

use object::Endianness;
use object::elf::{FileHeader64, R_X86_64_RELATIVE};
use object::read::elf::{FileHeader, SectionHeader};
use std::ops::Range;

/// The section with constants that contain addresses, among them every
/// [`Location`](std::panic::Location).
const CONSTANTS: &[u8] = b".data.rel.ro";

/// The section with the text of constants.
const TEXT: &[u8] = b".rodata";

/// The section with a hash of the whole program.
const BUILD_ID: &[u8] = b".note.gnu.build-id";

/// The length of an address, and of the length that follows it in a reference to text.
const WORD: usize = 8;

/// Sets lines, columns and build id of a program to zero. Another file is left as it is.
pub(super) fn clear(program: &mut [u8]) {
    for range in positions(program).unwrap_or_default() {
        if let Some(bytes) = program.get_mut(range) {
            bytes.fill(0);
        }
    }
}

/// Returns where the positions are. A `Location` is the address and length of a file name, then
/// line and column as two numbers of four bytes (`library/core/src/panic/location.rs`). Its
/// address is a relocation, because the program may be loaded anywhere.
fn positions(program: &[u8]) -> object::read::Result<Vec<Range<usize>>> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, program)?;
    let named = |name| sections.section_by_name(endian, name).map(|(_, own)| own);
    let mut found = Vec::new();
    if let Some(id) = named(BUILD_ID) {
        let (start, length) = id.file_range(endian).unwrap_or_default();
        found.push(start as usize..(start + length) as usize);
    }
    let (Some(constants), Some(text)) = (named(CONSTANTS), named(TEXT)) else {
        return Ok(found);
    };
    let strings = text.data(endian, program)?;
    let first = constants.sh_offset(endian);
    let within = 0..constants.sh_size(endian);
    for section in sections.iter() {
        let Some((relocations, _)) = section.rela(endian, program)? else {
            continue;
        };
        for relocation in relocations {
            let offset = relocation
                .r_offset
                .get(endian)
                .wrapping_sub(constants.sh_addr(endian));
            let target = relocation.r_addend.get(endian) as u64;
            if relocation.r_type(endian, false) != R_X86_64_RELATIVE || !within.contains(&offset) {
                continue;
            }
            let at = (first + offset) as usize;
            let start = target.wrapping_sub(text.sh_addr(endian)) as usize;
            if is_source(program, at + WORD, strings, start) {
                found.push(at + 2 * WORD..at + 3 * WORD);
            }
        }
    }
    Ok(found)
}

/// Returns whether `strings` has the name of a source file at `start`, with the length that the
/// program has at `length_at`.
fn is_source(program: &[u8], length_at: usize, strings: &[u8], start: usize) -> bool {
    let length = program.get(length_at..length_at + WORD);
    let length = length
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_le_bytes);
    let end = length.and_then(|length| start.checked_add(usize::try_from(length).ok()?));
    let name = end.and_then(|end| strings.get(start..end));
    // The name ends in a zero for C.
    name.is_some_and(|name| name.ends_with(b".rs") || name.ends_with(b".rs\0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    /// Compiles a program, and returns it without positions.
    fn compiled(folder: &Path, source: &str) -> (Vec<u8>, Vec<u8>) {
        fs::write(folder.join("one.rs"), source).unwrap();
        let status = Command::new("rustc")
            .args([
                "--edition",
                "2024",
                "-C",
                "strip=symbols",
                "-o",
                "one",
                "one.rs",
            ])
            .current_dir(folder)
            .status()
            .unwrap();
        assert!(status.success());
        let program = fs::read(folder.join("one")).unwrap();
        let mut cleared = program.clone();
        clear(&mut cleared);
        (program, cleared)
    }

    #[test]
    fn comments_leave_no_trace_and_numbers_do() {
        let folder = tempfile::tempdir().unwrap();
        let source = "fn main() {\n    let at = std::env::args().count();\n    \
                      println!(\"{}\", [1, 2, 3][at] + 5);\n}\n";
        let (plain, cleared) = compiled(folder.path(), source);
        let moved = source.replace("    println", "    // A comment.\n        println");
        let (other, other_cleared) = compiled(folder.path(), &moved);
        assert!(plain != other, "a comment moves the line of a panic");
        assert!(cleared == other_cleared, "a comment remains");
        let (_, changed) = compiled(folder.path(), &source.replace("+ 5", "+ 6"));
        assert!(cleared != changed, "a number is gone");
    }

    #[test]
    fn what_is_no_program_is_left_as_it_is() {
        let mut bytes = b"#!/bin/sh\n".to_vec();
        clear(&mut bytes);
        assert_eq!(bytes, b"#!/bin/sh\n");
    }
}
