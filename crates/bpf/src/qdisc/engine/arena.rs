// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arena of an engine's rows (`bpf/qdisc/engine_rows.h`) in this process's memory.
//!
//! The kernel has an arena at one address in all processes: the map says which. So the
//! address is chosen where none of the machine's arenas is, below everything that Linux
//! maps by itself. Within a process everyone has the same mapping.

use super::Engine;
use crate::error::BpfError;
use crate::layout::{
    ENGINE_FORKS_AT, ENGINE_HOSTS_AT, ENGINE_NODES_AT, ENGINE_QUEUES_AT, ENGINE_SLOTS_AT,
    engine_fork, engine_host, engine_node, engine_queue, engine_slot,
};
use crate::maps::failed;
use crate::present::WithPrograms;
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{Error, MapCore as _, MapHandle, MapType, libbpf_sys};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use weirgate_aqm::EngineSize;

/// The map's name.
pub(super) const NAME: &str = "rows";

/// What an arena may have, and so the distance of addresses.
const BYTES: usize = 4 << 30;

/// The first address of all, and how many there are. A process of 39 bits has the first
/// forty.
const FIRST: u64 = 64 << 30;
const PLACES: u64 = 4_096;

/// The mappings of this process, by the numbers of their maps.
static MAPPED: Mutex<BTreeMap<u32, Weak<Memory>>> = Mutex::new(BTreeMap::new());

/// The rows of an engine.
#[derive(Debug)]
pub(super) struct Arena {
    memory: Arc<Memory>,
    map: MapHandle,
    _with: WithPrograms,
}

/// A mapping of a whole arena.
#[derive(Debug)]
struct Memory(NonNull<u8>);

#[expect(unsafe_code, reason = "an address is no value of one thread")]
// SAFETY: what is behind the address is changed by the kernel's programs at any time
// anyway, and is read and written as such.
unsafe impl Send for Memory {}
#[expect(unsafe_code, reason = "an address is no value of one thread")]
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Arena {
    /// Makes an arena with pages for so many rows.
    pub(super) fn make(size: EngineSize) -> Result<Self, BpfError> {
        let nodes = rows(size.nodes) + size.hosts as usize;
        let kinds = [
            (ENGINE_NODES_AT, nodes * size_of::<engine_node>()),
            (ENGINE_FORKS_AT, rows(size.inner) * size_of::<engine_fork>()),
            (ENGINE_HOSTS_AT, rows(size.hosts) * size_of::<engine_host>()),
            (ENGINE_SLOTS_AT, rows(size.slots) * size_of::<engine_slot>()),
            (
                ENGINE_QUEUES_AT,
                rows(size.queues) * size_of::<engine_queue>(),
            ),
        ];
        let ends = kinds[1..].iter().map(|(at, _)| *at as usize).chain([BYTES]);
        for ((at, bytes), end) in kinds.iter().zip(ends) {
            if bytes + *at as usize > end {
                let error = Error::from_raw_os_error(libc::E2BIG);
                return Err(failed(Engine::KIND, NAME, "made")(error));
            }
        }
        let map = made().map_err(failed(Engine::KIND, NAME, "made"))?;
        let arena = Self::open(Some(map))?;
        for (at, bytes) in kinds {
            arena.populate(at as usize, bytes)?;
        }
        Ok(arena)
    }

    /// This arena.
    pub(super) fn open(map: Option<MapHandle>) -> Result<Self, BpfError> {
        let with = WithPrograms::of(NAME)?;
        let map = map.ok_or(BpfError::NoProgram(NAME))?;
        let memory = Memory::of(&map).map_err(failed(Engine::KIND, NAME, "mapped"))?;
        Ok(Self {
            memory,
            map,
            _with: with,
        })
    }

    /// Has the kernel put pages there.
    fn populate(&self, at: usize, bytes: usize) -> Result<(), BpfError> {
        #[expect(unsafe_code, reason = "libbpf-rs maps no memory")]
        // SAFETY: the memory is this mapping's, whatever is in it.
        let status = unsafe {
            let from = self.memory.0.as_ptr().add(at);
            libc::madvise(from.cast(), bytes, libc::MADV_POPULATE_WRITE)
        };
        if status != 0 {
            let error = Error::from(std::io::Error::last_os_error());
            return Err(failed(Engine::KIND, NAME, "given memory")(error));
        }
        Ok(())
    }

    /// The map, to pin it.
    pub(super) fn handle(&mut self) -> &mut MapHandle {
        &mut self.map
    }

    /// Its descriptor.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// The map for another program.
    pub(super) fn map(&self) -> Result<MapHandle, BpfError> {
        MapHandle::try_from(&self.map).map_err(failed(Engine::KIND, NAME, "opened"))
    }

    /// A node's row, by its number.
    pub(super) fn node(&self, row: u32) -> *mut engine_node {
        let nodes: *mut engine_node = self.memory.0.as_ptr().cast();
        nodes.wrapping_add(row as usize)
    }
}

/// With row 0, which is none.
fn rows(count: u32) -> usize {
    count as usize + 1
}

/// An arena at an address where there is none.
fn made() -> Result<MapHandle, Error> {
    let mut options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..libbpf_sys::bpf_map_create_opts::default()
    };
    let taken: BTreeSet<u64> = MapInfoIter::default()
        .filter(|info| info.ty == MapType::Arena)
        .filter_map(|info| MapHandle::from_map_id(info.id).ok())
        .filter_map(|map| Some(map.info().ok()?.info.map_extra))
        .collect();
    let mut all = (0..PLACES).map(|place| FIRST + place * BYTES as u64);
    let free = all.find(|address| !taken.contains(address));
    options.map_extra = free.ok_or_else(|| Error::from_raw_os_error(libc::ENOSPC))?;
    #[expect(unsafe_code, reason = "the size of a page is the machine's")]
    // SAFETY: it asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let pages = BYTES / usize::try_from(page).unwrap_or(4_096);
    MapHandle::create(MapType::Arena, Some(NAME), 0, 0, pages as u32, &options)
}

impl Memory {
    /// The mapping of an arena, which this process may have already.
    fn of(map: &MapHandle) -> Result<Arc<Self>, Error> {
        let info = map.info()?.info;
        let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = mapped.get(&info.id).and_then(Weak::upgrade) {
            return Ok(memory);
        }
        #[expect(unsafe_code, reason = "libbpf-rs maps no memory")]
        // SAFETY: a mapping that replaces none takes no memory that is in use.
        let address = unsafe {
            libc::mmap(
                info.map_extra as *mut libc::c_void,
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        let found = NonNull::new(address.cast()).filter(|_| address != libc::MAP_FAILED);
        let memory = Arc::new(Self(
            found.ok_or_else(|| Error::from(std::io::Error::last_os_error()))?,
        ));
        mapped.retain(|_, memory| memory.strong_count() > 0);
        mapped.insert(info.id, Arc::downgrade(&memory));
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "libbpf-rs unmaps no memory")]
        // SAFETY: the mapping is this value's own, and nothing refers to it.
        let _ = unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}
