// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk in memory that records its operations.

use std::io;
use weirgate_history::Storage;

/// An operation.
#[allow(dead_code, reason = "only one of the tests looks back")]
#[derive(Debug, Clone)]
pub enum Op {
    Write(u64, Vec<u8>),
    Sync,
}

#[derive(Debug, Clone, Default)]
pub struct Disk {
    pub bytes: Vec<u8>,
    pub ops: Vec<Op>,
    /// Whether the disk is full.
    pub full: bool,
}

impl Disk {
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at as usize + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at as usize..end].copy_from_slice(bytes);
    }
}

impl Storage for Disk {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.get(at as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.ops.push(Op::Write(at, bytes.to_vec()));
        self.put(at, bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.ops.push(Op::Sync);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}
