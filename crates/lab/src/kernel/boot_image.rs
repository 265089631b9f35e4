// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a bzImage: checks it, and finds its release and the uncompressed kernel. Offsets are
//! in Documentation/arch/x86/boot.rst.

use super::compression::Compression;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

/// The size of the part of the setup header that is read.
const HEADER_END: usize = 0x250;

/// The offset of the setup code's second sector, to which `kernel_version` is relative.
const VERSION_BASE: usize = 0x200;

/// The note with the 32-bit entry point (include/xen/interface/elfnote.h).
const XEN_ELFNOTE_PHYS32_ENTRY: elf::NoteType = elf::NoteType(18);

/// A checked bzImage.
#[derive(Debug)]
pub(crate) struct BootImage<'a> {
    /// The release, such as `6.12.9-amd64`.
    pub(crate) release: String,
    /// The compressed kernel.
    payload: &'a [u8],
}

impl<'a> BootImage<'a> {
    /// Parses the header, and checks the length of the file.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("the file is empty".into());
        }
        if bytes.get(0x202..0x206) != Some(b"HdrS") || bytes.len() < HEADER_END {
            return Err("it has no Linux boot header".into());
        }
        let protocol = u16_at(bytes, 0x206);
        if protocol < 0x20c {
            return Err(format!(
                "its boot protocol is {}.{:02}, older than 2.12 (Linux 3.8)",
                protocol >> 8,
                protocol & 0xff
            ));
        }
        if u16_at(bytes, 0x236) & 1 == 0 {
            return Err("it is not a 64-bit kernel".into());
        }
        let sectors = match bytes[0x1f1] {
            0 => 4,
            sectors => usize::from(sectors),
        };
        let setup = (sectors + 1) * 512;
        let promised = setup + u32_at(bytes, 0x1f4) as usize * 16;
        if bytes.len() < promised {
            return Err(format!(
                "it is cut off: {} bytes of {promised}",
                bytes.len()
            ));
        }
        let start = setup + u32_at(bytes, 0x248) as usize;
        let end = start + u32_at(bytes, 0x24c) as usize;
        let payload = bytes
            .get(start..end)
            .ok_or("its header points outside the file")?;
        let release = release(bytes).ok_or("its header names no release")?;
        Ok(Self { release, payload })
    }

    /// Returns the uncompressed kernel as an ELF file that qemu can enter directly, so that the
    /// virtual machine need not decompress it. Returns `None` if it has no such entry, or if its
    /// compression is unknown; the bzImage itself still boots.
    pub(crate) fn unpacked(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(compression) = Compression::of(self.payload) else {
            return Ok(None);
        };
        let plain = compression
            .unpack(self.payload)
            .map_err(|error| format!("its compressed part is damaged: {error}"))?;
        Ok(enters_directly(&plain).then_some(plain))
    }
}

/// Returns the first word of the version text to which the header points.
fn release(bytes: &[u8]) -> Option<String> {
    let text = bytes.get(VERSION_BASE + usize::from(u16_at(bytes, 0x20e))..)?;
    let word = text
        .get(..256.min(text.len()))?
        .split(|&byte| byte == b' ' || byte == 0)
        .next()?;
    let release = str::from_utf8(word).ok()?;
    let plausible = release.starts_with(|first: char| first.is_ascii_digit())
        && release
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-._~".contains(c));
    plausible.then(|| release.to_owned())
}

/// Returns whether the file is an x86-64 kernel with a PVH entry note.
fn enters_directly(kernel: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<Endianness>::parse(kernel) else {
        return false;
    };
    let Ok(endian) = header.endian() else {
        return false;
    };
    if header.e_machine(endian) != elf::EM_X86_64 {
        return false;
    }
    let Ok(segments) = header.program_headers(endian, kernel) else {
        return false;
    };
    segments.iter().any(|segment| {
        let Ok(Some(mut notes)) = segment.notes(endian, kernel) else {
            return false;
        };
        std::iter::from_fn(|| notes.next().ok().flatten())
            .any(|note| note.name() == b"Xen" && note.n_type(endian) == XEN_ELFNOTE_PHYS32_ENTRY)
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}
