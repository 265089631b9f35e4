// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Typed access to maps. Only this module converts their bytes.

use crate::error::BpfError;
use crate::layout::Layout;
use crate::present::WithPrograms;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, RingBufferBuilder};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use zerocopy::IntoBytes;

/// Returns the map of a loaded program by its name, if it exists.
pub(crate) trait Find: FnMut(&str) -> Option<MapHandle> {}

impl<F: FnMut(&str) -> Option<MapHandle>> Find for F {}

/// The value of a map.
pub trait Value: Sized {
    /// The size of the smallest value in bytes.
    const LEAST: usize;

    /// Parses a value; returns `None` if the number of bytes is wrong.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// Returns the bytes of the value.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// Returns a value of zeros.
    fn zero() -> Self;
}

impl<V: Layout> Value for V {
    const LEAST: usize = size_of::<V>();

    fn read(bytes: &[u8]) -> Option<Self> {
        V::read_from_bytes(bytes).ok()
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        self.as_bytes().into()
    }

    fn zero() -> Self {
        V::new_zeroed()
    }
}

/// A value with a typed head, which is common to all disciplines, followed by 64-bit words.
#[derive(Debug, Clone)]
pub struct Tailed<H> {
    pub(crate) head: H,
    pub(crate) tail: Vec<u64>,
}

impl<H: Layout> Value for Tailed<H> {
    const LEAST: usize = size_of::<H>();

    fn read(bytes: &[u8]) -> Option<Self> {
        let (head, tail) = H::read_from_prefix(bytes).ok()?;
        let words = tail.as_chunks::<8>().0.iter();
        Some(Self {
            head,
            tail: words.map(|word| u64::from_ne_bytes(*word)).collect(),
        })
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        [self.head.as_bytes(), self.tail.as_bytes()].concat().into()
    }

    fn zero() -> Self {
        Self {
            head: H::new_zeroed(),
            tail: Vec::new(),
        }
    }
}

/// A map with its name, for pinning.
pub type Named<'m> = (&'static str, &'m mut MapHandle);

/// A map of a program.
#[derive(Debug)]
pub(crate) struct Map<K, V> {
    /// The name of the owner, for errors.
    owner: String,
    name: &'static str,
    handle: MapHandle,
    _with: WithPrograms,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Layout, V: Value> Map<K, V> {
    /// Finds the map with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing, or if its values have another size.
    pub(crate) fn find(
        owner: &str,
        name: &'static str,
        find: &mut impl Find,
    ) -> Result<Self, BpfError> {
        Self::of(owner, name, find(name))
    }

    /// Wraps this map.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing, or if its values have another size.
    pub(crate) fn of(
        owner: &str,
        name: &'static str,
        handle: Option<MapHandle>,
    ) -> Result<Self, BpfError> {
        Self::with_tail(owner, name, 0, handle)
    }

    /// Wraps this map, whose values are `tail` bytes longer than the smallest.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing, or if its values have another size.
    pub(crate) fn with_tail(
        owner: &str,
        name: &'static str,
        tail: usize,
        handle: Option<MapHandle>,
    ) -> Result<Self, BpfError> {
        let with = WithPrograms::of(name)?;
        let expected = (V::LEAST + tail) as u32;
        let found = handle.as_ref().map_or(0, MapCore::value_size);
        let handle = handle.filter(|_| found == expected);
        Ok(Self {
            owner: owner.to_owned(),
            name,
            handle: handle.ok_or_else(|| BpfError::Layout {
                kind: owner.to_owned(),
                map: name,
                found,
                expected,
            })?,
            _with: with,
            types: PhantomData,
        })
    }

    /// Returns the value of a key; `None` if the key does not exist.
    pub(crate) fn get(&self, key: &K) -> Result<Option<V>, BpfError> {
        let found = self.handle.lookup(key.as_bytes(), MapFlags::ANY);
        let found = found.map_err(self.failed("read"))?;
        Ok(found.and_then(|bytes| V::read(&bytes)))
    }

    /// Replaces the value of an existing key; returns whether it exists.
    pub(crate) fn replace(&self, key: &K, value: &V) -> Result<bool, BpfError> {
        let bytes = value.bytes();
        match self.handle.update(key.as_bytes(), &bytes, MapFlags::EXIST) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            other => other.map(|()| true).map_err(self.failed("written")),
        }
    }

    /// Returns the value of a key, or zeros if the key does not exist.
    pub(crate) fn get_or_zero(&self, key: &K) -> Result<V, BpfError> {
        Ok(self.get(key)?.unwrap_or_else(V::zero))
    }

    /// Sets the value of a key.
    pub(crate) fn put(&self, key: &K, value: &V) -> Result<(), BpfError> {
        self.handle
            .update(key.as_bytes(), &value.bytes(), MapFlags::ANY)
            .map_err(self.failed("written"))
    }

    /// Sets the values of several keys in one system call.
    pub(crate) fn put_all(&self, entries: impl Iterator<Item = (K, V)>) -> Result<(), BpfError> {
        let (mut keys, mut values, mut count) = (Vec::new(), Vec::new(), 0);
        for (key, value) in entries {
            keys.extend_from_slice(key.as_bytes());
            values.extend_from_slice(&value.bytes());
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        self.handle
            .update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
            .map_err(self.failed("written"))
    }

    /// Removes a key if it exists.
    pub(crate) fn remove(&self, key: &K) -> Result<(), BpfError> {
        match self.handle.delete(key.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(self.failed("written")),
        }
    }

    /// Returns the largest number of entries.
    pub(crate) fn capacity(&self) -> u32 {
        self.handle.max_entries()
    }

    /// Iterates over all keys, in no particular order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> + '_ {
        let keys = self.handle.keys();
        keys.filter_map(|key| K::read_from_bytes(&key).ok())
    }

    /// Returns all keys and values, in no particular order. Reads the map in a single batch: the
    /// kernel returns whole hash buckets, so smaller batches would rarely be full.
    pub(crate) fn entries(&self) -> Result<Vec<(K, V)>, BpfError> {
        let failed = self.failed("read");
        // Per-CPU maps have several values for each key.
        if self.handle.map_type().is_percpu() || self.handle.key_size() as usize != size_of::<K>() {
            return Err(failed(libbpf_rs::Error::from_raw_os_error(libc::EINVAL)));
        }
        let size = self.handle.value_size() as usize;
        let mut count = self.handle.max_entries();
        let most = count as usize;
        let mut keys = vec![0; most * size_of::<K>()];
        let mut values = vec![0; most * size];
        // The position of the next batch: a bucket number or a key.
        let mut after = vec![0_u8; size_of::<K>().max(size_of::<u32>())];
        #[expect(unsafe_code, reason = "libbpf-rs makes two vectors of each entry")]
        // SAFETY: the kernel writes at most `count` keys and values of the map's sizes, and a
        // bucket number or a key into `after`.
        let status = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                self.handle.as_fd().as_raw_fd(),
                std::ptr::null_mut(),
                after.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                std::ptr::null(),
            )
        };
        // ENOENT means that the end of the map was reached.
        if status < 0 && status != -libc::ENOENT {
            return Err(failed(libbpf_rs::Error::from_raw_os_error(-status)));
        }
        let keys = keys.chunks_exact(size_of::<K>());
        let entries = keys
            .zip(values.chunks_exact(size.max(1)))
            .take(count as usize);
        let entry = |(key, value)| Some((K::read_from_bytes(key).ok()?, V::read(value)?));
        Ok(entries.filter_map(entry).collect())
    }

    /// Returns the map itself, to pin it or to share it with another program.
    pub(crate) fn handle(&mut self) -> Named<'_> {
        (self.name, &mut self.handle)
    }

    /// Returns its descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Returns its identifier in the kernel.
    pub(crate) fn id(&self) -> Option<u32> {
        id(&self.handle)
    }

    /// Returns a function that makes an error of this map.
    pub(crate) fn failed(
        &self,
        doing: &'static str,
    ) -> impl Fn(libbpf_rs::Error) -> BpfError + use<K, V> {
        failed(&self.owner, self.name, doing)
    }
}

/// Array maps, and access to their first value.
impl<V: Value> Map<u32, V> {
    /// Returns its identifier in the kernel, which is unique since the last boot.
    pub(crate) fn number(&self) -> Result<u32, BpfError> {
        let info = self.handle.info();
        Ok(info.map_err(self.failed("read"))?.info.id)
    }

    /// Returns the value at key 0.
    pub(crate) fn first(&self) -> Result<V, BpfError> {
        self.get_or_zero(&0)
    }

    /// Sets the value at key 0.
    pub(crate) fn set_first(&self, value: &V) -> Result<(), BpfError> {
        self.put(&0, value)
    }
}

/// Opens the map that is pinned in a folder under this name.
///
/// # Errors
///
/// Returns an error if there is no such pin, or if it cannot be opened.
pub(crate) fn pinned(folder: &Path, name: &'static str) -> Result<MapHandle, BpfError> {
    WithPrograms::of(name)?;
    let path = folder.join(name);
    MapHandle::from_pinned_path(&path).map_err(|source| BpfError::Pin {
        path,
        doing: "opened",
        source,
    })
}

/// Returns the kernel's identifier of a map, which is valid while the map exists.
pub(crate) fn id(handle: &MapHandle) -> Option<u32> {
    handle.info().ok().map(|info| info.info.id)
}

/// Passes each record of a ring buffer to `take` and removes it.
pub(crate) fn drain(
    owner: &str,
    name: &'static str,
    handle: &MapHandle,
    mut take: impl FnMut(&[u8]),
) -> Result<(), BpfError> {
    let failed = failed(owner, name, "read");
    let mut ring = RingBufferBuilder::new();
    let read = |bytes: &[u8]| {
        take(bytes);
        0
    };
    ring.add(handle, read).map_err(&failed)?;
    ring.build().map_err(&failed)?.consume().map_err(&failed)
}

/// Returns a function that makes an error of a map.
pub(crate) fn failed(
    owner: &str,
    map: &'static str,
    doing: &'static str,
) -> impl Fn(libbpf_rs::Error) -> BpfError + use<> {
    let kind = owner.to_owned();
    move |source| BpfError::Map {
        kind: kind.clone(),
        map,
        doing,
        source,
    }
}
