// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled programs, part of this library. They are compressed, because they are two megabytes
//! and similar to each other.

use crate::present::WithPrograms;
use lzma_rust2::LzmaReader;
use std::io::{self, Read};
use std::ops::Deref;
use weirgate_units::fnv1a_64;
use zerocopy::IntoBytes;

/// An object, where libbpf can read it in place: as 64-bit words.
#[derive(Debug)]
pub struct Object {
    words: Box<[u64]>,
    bytes: usize,
}

impl Object {
    /// One of so many bytes, all zero.
    fn empty(bytes: usize) -> Self {
        let words = vec![0; bytes.div_ceil(8)].into_boxed_slice();
        Self { words, bytes }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.bytes]
    }
}

/// Copies an object that may begin anywhere.
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

/// Objects that are packed together.
struct Block {
    /// Their bytes, as LZMA without a header.
    packed: &'static [u8],
    /// How many bytes they have.
    bytes: usize,
}

/// A program below `bpf/`.
struct Program {
    name: &'static str,
    /// A number that tells versions of it apart.
    digest: u32,
    /// Where its object is: the number of the block, the place in it, and its length.
    block: usize,
    at: usize,
    bytes: usize,
}

// `BLOCKS` and `PROGRAMS`, and how they are packed: `PROPERTIES` and `DICTIONARY`. Also
// `SOURCES`, and their `KIT_NUMBER`.
include!(concat!(env!("OUT_DIR"), "/programs.rs"));

impl Program {
    fn found(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// The object.
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

/// Programs of the lab and its measurements, which no router ever has.
const OF_THE_LAB: [&str; 6] = ["fifo", "line", "middlebox", "prague", "send", "watch"];

/// Every compiled program that weirgate may load on a router, with its name.
pub fn programs() -> impl Iterator<Item = (&'static str, Object)> {
    let all = PROGRAMS.iter();
    let of_routers = all.filter(|program| !OF_THE_LAB.contains(&program.name));
    of_routers.map(|program| (program.name, program.object()))
}

/// The program of this name.
pub(crate) fn named(name: &str) -> Option<Object> {
    WithPrograms::here()?;
    Program::found(name).map(Program::object)
}

/// The ingress program of a discipline of the kit.
pub(crate) fn ingress(discipline: &str) -> Option<Object> {
    named(&format!("ingress_{discipline}"))
}

/// A number that tells versions of a program apart; 0 where there is none.
pub(crate) fn digest(name: &str) -> u32 {
    Program::found(name).map_or(0, |program| program.digest)
}

/// The sources that the programs were made from, and libbpf's headers: path and
/// text. Someone else's discipline is compiled with these.
pub fn sources() -> &'static [(&'static str, &'static str)] {
    SOURCES
}

/// What tells versions of the kit's sources apart: a discipline that was built
/// by itself carries the number of those that it was built with.
pub fn kit_number() -> u64 {
    KIT_NUMBER
}

/// A number that tells texts apart (FNV-1a of all of them).
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

    /// The constants of a program, set before it is loaded, are one value: the compiler orders
    /// several as it likes, and whoever sets their bytes does not know how.
    #[test]
    fn constants_are_one_value() {
        let mut several = Vec::new();
        let mut found = 0;
        // Constants of disciplines are set where they are written.
        let discipline = |program: &&Program| program.name.starts_with("ingress_");
        for program in PROGRAMS.iter().filter(|program| !discipline(program)) {
            let object = program.object();
            let mut open = ObjectBuilder::default();
            let open = open.open_memory(&object).unwrap();
            // SAFETY: the object is open for as long as what is read of it.
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
