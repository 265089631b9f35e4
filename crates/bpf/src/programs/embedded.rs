// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled programs, which are part of this library. They have two megabytes and resemble
//! each other, so they are compressed together.

use crate::present::WithPrograms;
use lzma_rust2::LzmaReader;
use std::io::{self, Read};
use std::ops::Deref;
use weirgate_units::fnv1a_64;
use zerocopy::IntoBytes;

/// An object file in memory, aligned to 64 bits so that libbpf can read it in place.
#[derive(Debug)]
pub struct Object {
    words: Box<[u64]>,
    bytes: usize,
}

impl Object {
    /// Makes an object of this size that consists of zeros.
    fn empty(bytes: usize) -> Self {
        let words = vec![0; bytes.div_ceil(8)].into_boxed_slice();
        Self { words, bytes }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.bytes]
    }
}

/// Copies an object, which need not be aligned.
impl From<&[u8]> for Object {
    fn from(bytes: &[u8]) -> Self {
        let mut object = Self::empty(bytes.len());
        object.bytes_mut().copy_from_slice(bytes);
        object
    }
}

impl Deref for Object {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.words.as_bytes()[..self.bytes]
    }
}

/// Objects that are compressed together.
struct Block {
    /// The compressed data: LZMA without a header.
    packed: &'static [u8],
    /// The total size of the objects in bytes.
    bytes: usize,
}

/// A program below `bpf/`.
struct Program {
    name: &'static str,
    /// A checksum that identifies its version.
    digest: u32,
    /// The location of its object: the index of the block, the offset in it, and the size.
    block: usize,
    at: usize,
    bytes: usize,
}

// Defines `BLOCKS` and `PROGRAMS`, the compression parameters `PROPERTIES` and `DICTIONARY`, and
// `SOURCES` with their `KIT_NUMBER`.
include!(concat!(env!("OUT_DIR"), "/programs.rs"));

impl Program {
    fn found(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Decompresses the object.
    fn object(&self) -> Object {
        self.unpacked().expect("what this library packed itself")
    }

    fn unpacked(&self) -> io::Result<Object> {
        let block = &BLOCKS[self.block];
        let bytes = block.bytes as u64;
        let mut reader =
            LzmaReader::new_with_props(block.packed, bytes, PROPERTIES, DICTIONARY, None)?;
        io::copy(&mut reader.by_ref().take(self.at as u64), &mut io::sink())?;
        let mut object = Object::empty(self.bytes);
        reader.read_exact(object.bytes_mut())?;
        Ok(object)
    }
}

/// Programs of the laboratory and its measurements, which a router never loads.
const OF_THE_LAB: [&str; 6] = ["fifo", "line", "middlebox", "prague", "send", "watch"];

/// Returns every compiled program that weirgate may load on a router, with its name.
pub fn programs() -> impl Iterator<Item = (&'static str, Object)> {
    let all = PROGRAMS.iter();
    let of_routers = all.filter(|program| !OF_THE_LAB.contains(&program.name));
    of_routers.map(|program| (program.name, program.object()))
}

/// Returns the program with this name.
pub(crate) fn named(name: &str) -> Option<Object> {
    WithPrograms::here()?;
    Program::found(name).map(Program::object)
}

/// Returns the ingress program of a discipline of the kit.
pub(crate) fn ingress(discipline: &str) -> Option<Object> {
    named(&format!("ingress_{discipline}"))
}

/// Returns a checksum that identifies the version of a program; 0 if there is no such program.
pub(crate) fn digest(name: &str) -> u32 {
    Program::found(name).map_or(0, |program| program.digest)
}

/// Returns the sources of the programs, and libbpf's headers, as paths and texts. They are
/// needed to compile a user's own discipline.
pub fn sources() -> &'static [(&'static str, &'static str)] {
    SOURCES
}

/// Returns a checksum of the kit's sources. A discipline that was compiled separately contains
/// the checksum of the sources that it was built with.
pub fn kit_number() -> u64 {
    KIT_NUMBER
}

/// Returns a checksum of texts: FNV-1a of all their bytes.
pub fn source_number<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> u64 {
    fnv1a_64(texts.into_iter().flatten().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::DataSec;
    use libbpf_rs::{AsRawLibbpf as _, ObjectBuilder};
    use weirgate_units::fnv1a_32;

    #[test]
    fn every_program_is_unpacked_as_it_was_compiled() {
        for program in PROGRAMS {
            let object = program.object();
            assert!(object.starts_with(b"\x7fELF"), "{}", program.name);
            let digest = fnv1a_32(object.iter().copied());
            assert_eq!(digest, program.digest, "{}", program.name);
            assert_eq!(object.as_ptr().align_offset(8), 0);
        }
    }

    /// The constants of a program, which are set before it is loaded, form one value. The
    /// compiler may reorder several values, and the code that sets their bytes does not know
    /// their order.
    #[test]
    fn constants_are_one_value() {
        let mut several = Vec::new();
        let mut found = 0;
        // The constants of disciplines are set in the source.
        let discipline = |program: &&Program| program.name.starts_with("ingress_");
        for program in PROGRAMS.iter().filter(|program| !discipline(program)) {
            let object = program.object();
            let mut open = ObjectBuilder::default();
            let open = open.open_memory(&object).unwrap();
            // SAFETY: the object stays open while its data are read.
            #[expect(unsafe_code, reason = "libbpf-rs lends it as a pointer")]
            let whole = unsafe { open.as_libbpf_object().as_ref() };
            let types = Btf::from_bpf_object(whole).unwrap();
            let constants = types.as_ref().and_then(|types| {
                let section = types.type_by_name::<DataSec<'_>>(".rodata")?;
                Some(section.iter().count())
            });
            found += usize::from(constants == Some(1));
            if constants.is_some_and(|count| count > 1) {
                several.push((program.name, constants));
            }
        }
        assert_eq!(several, []);
        assert!(found > 3, "{found}");
    }

    #[test]
    fn the_number_of_the_kit_is_that_of_its_sources() {
        let sources = SOURCES.iter().map(|(_, text)| text.as_bytes());
        assert_eq!(kit_number(), source_number(sources));
    }

    #[test]
    fn an_object_is_copied_with_its_length() {
        for bytes in [&b""[..], b"1234567", b"12345678", b"123456789"] {
            assert_eq!(&*Object::from(bytes), bytes);
        }
    }
}
