// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps whose keys and values are typed: the only place where their bytes are cast.

use crate::error::BpfError;
use crate::layout::Layout;
use crate::present::WithPrograms;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, RingBufferBuilder};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use zerocopy::IntoBytes;

/// Finds a map of a loaded program by its name; `None` where it has none.
pub(crate) trait Find: FnMut(&str) -> Option<MapHandle> {}

impl<F: FnMut(&str) -> Option<MapHandle>> Find for F {}

/// A map's value.
pub trait Value: Sized {
    /// Bytes that every one has.
    const LEAST: usize;

    /// Reads one; `None` where the bytes are too few or too many.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// All its bytes.
    fn bytes(&self) -> Cow<'_, [u8]>;

    /// One that is all zero.
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

/// A value of which only the head is the same for all disciplines; what follows is
/// 64-bit words.
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

/// A map by its name, to pin it.
pub type Named<'m> = (&'static str, &'m mut MapHandle);

/// A map of a program.
#[derive(Debug)]
pub(crate) struct Map<K, V> {
    /// Whose it is, for errors.
    owner: String,
    name: &'static str,
    handle: MapHandle,
    _with: WithPrograms,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Layout, V: Value> Map<K, V> {
    /// The map of this name.
    ///
    /// # Errors
    ///
    /// Occurs where it is missing, or its values have another size.
    pub(crate) fn find(
        owner: &str,
        name: &'static str,
        find: &mut impl Find,
    ) -> Result<Self, BpfError> {
        Self::of(owner, name, find(name))
    }

    /// This map.
    ///
    /// # Errors
    ///
    /// Occurs where it is missing, or its values have another size.
    pub(crate) fn of(
        owner: &str,
        name: &'static str,
        handle: Option<MapHandle>,
    ) -> Result<Self, BpfError> {
        Self::with_tail(owner, name, 0, handle)
    }

    /// This map, whose values end in so many bytes more than the least.
    ///
    /// # Errors
    ///
    /// Occurs where it is missing, or its values have another size.
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

    /// The value of a key; `None` where it has none.
    pub(crate) fn get(&self, key: &K) -> Result<Option<V>, BpfError> {
        let found = self.handle.lookup(key.as_bytes(), MapFlags::ANY);
        let found = found.map_err(self.failed("read"))?;
        Ok(found.and_then(|bytes| V::read(&bytes)))
    }

    /// Sets the value of a key that is there; whether it is.
    pub(crate) fn replace(&self, key: &K, value: &V) -> Result<bool, BpfError> {
        let bytes = value.bytes();
        match self.handle.update(key.as_bytes(), &bytes, MapFlags::EXIST) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            other => other.map(|()| true).map_err(self.failed("written")),
        }
    }

    /// The value of a key, all zero where it has none.
    pub(crate) fn get_or_zero(&self, key: &K) -> Result<V, BpfError> {
        Ok(self.get(key)?.unwrap_or_else(V::zero))
    }

    /// Sets the value of a key.
    pub(crate) fn put(&self, key: &K, value: &V) -> Result<(), BpfError> {
        self.handle
            .update(key.as_bytes(), &value.bytes(), MapFlags::ANY)
            .map_err(self.failed("written"))
    }

    /// Sets the values of keys, in one call.
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

    /// Removes a key, if it is there.
    pub(crate) fn remove(&self, key: &K) -> Result<(), BpfError> {
        match self.handle.delete(key.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(self.failed("written")),
        }
    }

    /// All keys, in no order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> + '_ {
        let keys = self.handle.keys();
        keys.filter_map(|key| K::read_from_bytes(&key).ok())
    }

    /// All keys with their values, in no order. The map is read in one batch: the
    /// kernel gives whole buckets, so that a smaller batch is seldom full.
    pub(crate) fn entries(&self) -> Result<Vec<(K, V)>, BpfError> {
        let failed = self.failed("read");
        // Those of processors have a value for each.
        if self.handle.map_type().is_percpu() || self.handle.key_size() as usize != size_of::<K>() {
            return Err(failed(libbpf_rs::Error::from_raw_os_error(libc::EINVAL)));
        }
        let size = self.handle.value_size() as usize;
        let mut count = self.handle.max_entries();
        let most = count as usize;
        let mut keys = vec![0; most * size_of::<K>()];
        let mut values = vec![0; most * size];
        // Where the next batch would begin: a bucket, or a key.
        let mut after = vec![0_u8; size_of::<K>().max(size_of::<u32>())];
        #[expect(unsafe_code, reason = "libbpf-rs makes two vectors of each entry")]
        // SAFETY: the kernel writes at most `count` keys and values of the map's
        // sizes, and a bucket or a key behind them.
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
        // The end of the map.
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

    /// The map itself, to pin it or to share it with another program.
    pub(crate) fn handle(&mut self) -> Named<'_> {
        (self.name, &mut self.handle)
    }

    /// Its descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Its number in the kernel.
    pub(crate) fn id(&self) -> Option<u32> {
        id(&self.handle)
    }

    /// Its error.
    pub(crate) fn failed(
        &self,
        doing: &'static str,
    ) -> impl Fn(libbpf_rs::Error) -> BpfError + use<K, V> {
        failed(&self.owner, self.name, doing)
    }
}

/// Array maps of one value.
impl<V: Value> Map<u32, V> {
    /// How many keys it has room for.
    pub(crate) fn capacity(&self) -> u32 {
        self.handle.max_entries()
    }

    /// The number that the kernel has for it, which no other map of this boot has.
    pub(crate) fn number(&self) -> Result<u32, BpfError> {
        let info = self.handle.info();
        Ok(info.map_err(self.failed("read"))?.info.id)
    }

    /// The value at the first key.
    pub(crate) fn first(&self) -> Result<V, BpfError> {
        self.get_or_zero(&0)
    }

    /// Sets the value at the first key.
    pub(crate) fn set_first(&self, value: &V) -> Result<(), BpfError> {
        self.put(&0, value)
    }
}

/// The map that is pinned in a folder by this name.
///
/// # Errors
///
/// Occurs where none is, or it cannot be opened.
pub(crate) fn pinned(folder: &Path, name: &'static str) -> Result<MapHandle, BpfError> {
    WithPrograms::of(name)?;
    let path = folder.join(name);
    MapHandle::from_pinned_path(&path).map_err(|source| BpfError::Pin {
        path,
        doing: "opened",
        source,
    })
}

/// The kernel's number of a map, for as long as somebody has it.
pub(crate) fn id(handle: &MapHandle) -> Option<u32> {
    handle.info().ok().map(|info| info.info.id)
}

/// Calls `take` with each record that a ring holds, and forgets them.
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

/// The error of a map.
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
