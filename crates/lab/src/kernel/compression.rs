// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decompresses kernels and modules.

use std::io::{self, Read};

/// A compression, recognised by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    /// Returns the compression whose magic number `bytes` begin with.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        const KNOWN: [(&[u8], Compression); 3] = [
            (&[0x1f, 0x8b], Compression::Gzip),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], Compression::Xz),
            (&[0x28, 0xb5, 0x2f, 0xfd], Compression::Zstd),
        ];
        KNOWN
            .iter()
            .find(|(magic, _)| bytes.starts_with(magic))
            .map(|&(_, compression)| compression)
    }

    /// Decompresses one stream, and ignores bytes after its end.
    pub(crate) fn unpack(self, packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        match self {
            Self::Gzip => flate2::read::GzDecoder::new(packed).read_to_end(&mut plain)?,
            Self::Xz => lzma_rust2::XzReader::new(packed, false).read_to_end(&mut plain)?,
            Self::Zstd => ruzstd::decoding::StreamingDecoder::new(packed)
                .map_err(io::Error::other)?
                .read_to_end(&mut plain)?,
        };
        Ok(plain)
    }
}
