// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arena of an engine's rows (`bpf/qdisc/engine/rows.h`), mapped into this process.
//!
//! The kernel requires an arena to have the same address in all processes, and the map records
//! it. This code therefore chooses an address that no arena of this machine uses, below all
//! addresses that Linux chooses by itself. All users within a process share one mapping.

use super::Engine;
use crate::error::BpfError;
use crate::layout::{engine_fork, engine_host, engine_node, engine_queue, engine_slot};
use crate::maps::failed;
use crate::present::WithPrograms;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{Error, ErrorKind, MapCore as _, MapHandle, MapType, libbpf_sys};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use weirgate_aqm::EngineSize;

/// The name of the map.
pub(super) const NAME: &str = "rows";

/// The largest arena in bytes, and the distance between candidate addresses.
const MOST: usize = 4 << 30;

/// The alignment of each kind of row: a cache line.
const ALIGNED: usize = 64;

/// The first candidate address and the number of candidates. A process with 39-bit addresses can
/// use the first forty.
const FIRST: u64 = 64 << 30;
const PLACES: u64 = 4_096;

/// The mappings of this process, by the identifiers of their maps.
static MAPPED: Mutex<BTreeMap<u32, Weak<Memory>>> = Mutex::new(BTreeMap::new());

/// The map and the mapping of an arena.
#[derive(Debug)]
pub(super) struct Arena {
    memory: ManuallyDrop<Arc<Memory>>,
    map: MapHandle,
    _with: WithPrograms,
}

/// A mapping of a whole arena. A process that locks its memory makes all of it resident, so an
/// arena is no larger than its rows need.
#[derive(Debug)]
struct Memory {
    address: NonNull<u8>,
    bytes: usize,
}

#[expect(unsafe_code, reason = "an address is no value of one thread")]
// SAFETY: BPF programs change this memory at any time anyway, so it is only accessed by volatile
// or atomic operations.
unsafe impl Send for Memory {}
#[expect(unsafe_code, reason = "an address is no value of one thread")]
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Arena {
    /// Makes an arena for rows of this size. Also returns the offsets of the rows of forks,
    /// queues, slots and hosts: `engine.at` (`aqm/host/engine.h`).
    pub(super) fn make(size: EngineSize) -> Result<(Self, [u32; 4]), BpfError> {
        let kinds = [
            rows(size.inner) * size_of::<engine_fork>(),
            rows(size.queues) * size_of::<engine_queue>(),
            rows(size.slots) * size_of::<engine_slot>(),
            rows(size.hosts) * size_of::<engine_host>(),
        ];
        let nodes = rows(size.nodes) + size.hosts as usize;
        let mut end = nodes * size_of::<engine_node>();
        let at = kinds.map(|bytes| {
            let begin = end.next_multiple_of(ALIGNED);
            end = begin + bytes;
            // An offset beyond the largest arena is an error below.
            begin as u32
        });
        let made = if end > MOST {
            Err(Error::from_raw_os_error(libc::E2BIG))
        } else {
            made(end)
        };
        let (map, memory) = made.map_err(failed(Engine::KIND, NAME, "made"))?;
        let arena = Self::of(map, memory)?;
        arena.populate()?;
        Ok((arena, at))
    }

    /// Opens an existing arena.
    pub(super) fn open(map: Option<MapHandle>) -> Result<Self, BpfError> {
        let map = map.ok_or(BpfError::NoProgram(NAME))?;
        let memory = Memory::of(&map).map_err(failed(Engine::KIND, NAME, "mapped"))?;
        Self::of(map, memory)
    }

    fn of(map: MapHandle, memory: Arc<Memory>) -> Result<Self, BpfError> {
        Ok(Self {
            memory: ManuallyDrop::new(memory),
            map,
            _with: WithPrograms::of(NAME)?,
        })
    }

    /// Makes the kernel allocate all pages.
    fn populate(&self) -> Result<(), BpfError> {
        let Memory { address, bytes } = **self.memory;
        #[expect(unsafe_code, reason = "libbpf-rs maps no memory")]
        // SAFETY: the memory is this mapping's, whatever it contains.
        let status =
            unsafe { libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
        if status != 0 {
            let error = Error::from(std::io::Error::last_os_error());
            return Err(failed(Engine::KIND, NAME, "given memory")(error));
        }
        Ok(())
    }

    /// Returns the map, to pin it.
    pub(super) fn handle(&mut self) -> &mut MapHandle {
        &mut self.map
    }

    /// Returns the descriptor of the map.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Returns another handle of the map, for another program.
    pub(super) fn map(&self) -> Result<MapHandle, BpfError> {
        MapHandle::try_from(&self.map).map_err(failed(Engine::KIND, NAME, "opened"))
    }

    /// Returns the size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// Returns a node's row by its number.
    pub(super) fn node(&self, row: u32) -> *mut engine_node {
        let nodes: *mut engine_node = self.memory.address.as_ptr().cast();
        nodes.wrapping_add(row as usize)
    }
}

/// Returns the number of rows including row 0, which is not used.
fn rows(count: u32) -> usize {
    count as usize + 1
}

/// Returns the page size in bytes.
fn page() -> usize {
    #[expect(unsafe_code, reason = "the size of a page is the machine's")]
    // SAFETY: the call only returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).unwrap_or(4_096)
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Hold the lock, so that a concurrent [`Memory::of`] finds the old mapping whole or not
        // at all.
        let _mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
        #[expect(unsafe_code, reason = "the mapping goes while others wait")]
        // SAFETY: it is dropped only here, and not used afterwards.
        unsafe {
            ManuallyDrop::drop(&mut self.memory);
        }
    }
}

/// Makes an arena of this size and maps it, at an address that neither another arena nor this
/// process uses.
fn made(bytes: usize) -> Result<(MapHandle, Arc<Memory>), Error> {
    let pages = bytes.div_ceil(page());
    for place in 0..PLACES {
        let address = FIRST + place * MOST as u64;
        if arenas().any(|(_, other)| other == address) {
            continue;
        }
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_MMAPABLE,
            map_extra: address,
            ..libbpf_sys::bpf_map_create_opts::default()
        };
        let map = MapHandle::create(MapType::Arena, Some(NAME), 0, 0, pages as u32, &options)?;
        let own = map.info()?.info.id;
        // If two processes made an arena at the same address, the one with the higher identifier
        // tries again.
        if arenas().any(|(id, other)| other == address && id < own) {
            continue;
        }
        match Memory::of(&map) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            mapped => return Ok((map, mapped?)),
        }
    }
    Err(Error::from_raw_os_error(libc::ENOSPC))
}

/// Iterates over the arenas of this machine: the identifier and address of each.
fn arenas() -> impl Iterator<Item = (u32, u64)> {
    MapInfoIter::default()
        .filter(|info| info.ty == MapType::Arena)
        .filter_map(|info| {
            let map = MapHandle::from_map_id(info.id).ok()?;
            Some((info.id, map.info().ok()?.info.map_extra))
        })
}

impl Memory {
    /// Maps an arena, or returns the mapping that this process already has.
    fn of(map: &MapHandle) -> Result<Arc<Self>, Error> {
        let info = map.info()?.info;
        let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = mapped.get(&info.id).and_then(Weak::upgrade) {
            return Ok(memory);
        }
        let bytes = map.max_entries() as usize * page();
        #[expect(unsafe_code, reason = "libbpf-rs maps no memory")]
        // SAFETY: a mapping that replaces no other one takes no memory in use.
        let address = unsafe {
            libc::mmap(
                info.map_extra as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        let found = NonNull::new(address.cast()).filter(|_| address != libc::MAP_FAILED);
        let address = found.ok_or_else(|| Error::from(std::io::Error::last_os_error()))?;
        let memory = Arc::new(Self { address, bytes });
        mapped.retain(|_, memory| memory.strong_count() > 0);
        mapped.insert(info.id, Arc::downgrade(&memory));
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "libbpf-rs unmaps no memory")]
        // SAFETY: the mapping belongs to this value, and nothing refers to it.
        let _ = unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}
