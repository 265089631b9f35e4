// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared code for programs that examine packets, as filters (cls_bpf) and at tracepoints: loads
//! them, runs them on single frames, and opens their maps.

use crate::error::BpfError;
use crate::layout::{__sk_buff, Layout, TC_ACT_SHOT, tuple};
use crate::maps::Map;
use crate::present::WithPrograms;
use crate::programs::tcx::End;
use crate::programs::{self, Attached, log};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{ErrorExt, Link, MapCore, MapHandle, Object, ObjectBuilder, ProgramInput};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The size of the buffer for the context that a test run returns; larger than in any kernel.
const CONTEXT_BACK: usize = 1024;

/// The loaded programs of one object file. They are unloaded when this is dropped, unless they
/// are attached to a device.
#[derive(Debug)]
pub(crate) struct PacketPrograms {
    /// The object file.
    file: &'static str,
    /// The name of the programs in errors.
    kind: &'static str,
    object: Object,
    _with: WithPrograms,
}

/// The properties of a frame besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    pub(crate) mark: u32,
    /// The priority, which names its class.
    pub(crate) priority: u32,
    /// The number of merged segments, and the payload bytes of each; 0 for a packet that was not
    /// merged.
    pub(crate) merged: (u32, u32),
}

/// The result of running a program on a frame.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Whether the program dropped the frame.
    pub(crate) dropped: bool,
    /// The frame after the run.
    pub(crate) frame: Vec<u8>,
    /// Its mark after the run.
    pub(crate) mark: u32,
    /// Its priority after the run.
    pub(crate) priority: u32,
}

impl PacketPrograms {
    /// Loads an object file. `constants` is the beginning of its constant data, if it has any.
    /// Needs CAP_BPF and CAP_NET_ADMIN.
    pub(crate) fn load(
        file: &'static str,
        kind: &'static str,
        constants: Option<&[u8]>,
    ) -> Result<Self, BpfError> {
        Self::load_sized(file, kind, constants, &[])
    }

    /// Loads an object file, with the given sizes of maps in entries, or of ring buffers in
    /// bytes.
    pub(crate) fn load_sized(
        file: &'static str,
        kind: &'static str,
        constants: Option<&[u8]>,
        room: &[(&str, u32)],
    ) -> Result<Self, BpfError> {
        let object = programs::named(file).ok_or(BpfError::NoProgram(file))?;
        Self::load_object(file, kind, &object, constants, room)
    }

    /// Loads an object file of programs that observe packets, and attaches them. Its optional
    /// programs, whose sections begin with `?`, are left out if the kernel refuses them.
    pub(crate) fn observe(
        file: &'static str,
        constants: &[u8],
    ) -> Result<(Self, Vec<Link>), BpfError> {
        let object = programs::named(file).ok_or(BpfError::NoProgram(file))?;
        let begin = |optional| {
            let programs = Self::load_with(file, file, &object, Some(constants), &[], optional)?;
            let links = programs.attach()?;
            Ok((programs, links))
        };
        begin(true).or_else(|_: BpfError| begin(false))
    }

    /// Loads an object that need not be part of this library. It must be aligned to 8 bytes,
    /// because libbpf reads 64-bit words.
    pub(crate) fn load_object(
        file: &'static str,
        kind: &'static str,
        bytes: &[u8],
        constants: Option<&[u8]>,
        room: &[(&str, u32)],
    ) -> Result<Self, BpfError> {
        Self::load_with(file, kind, bytes, constants, room, false)
    }

    fn load_with(
        file: &'static str,
        kind: &'static str,
        bytes: &[u8],
        constants: Option<&[u8]>,
        room: &[(&str, u32)],
        optional: bool,
    ) -> Result<Self, BpfError> {
        let with = WithPrograms::of(file)?;
        let (loaded, log) = log::recorded(|| {
            let mut open = ObjectBuilder::default().name(kind)?.open_memory(bytes)?;
            if let Some(constants) = constants {
                let mut maps = open.maps_mut();
                let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
                let map = maps.find(|map| map.name().to_string_lossy().ends_with(".rodata"));
                let mut map = map.ok_or_else(missing).context("the program's constants")?;
                map.set_initial_value(constants)
                    .context("the program's constants")?;
            }
            for mut map in open.maps_mut() {
                let sized = room.iter().find(|(name, _)| map.name() == *name);
                if let Some((_, entries)) = sized {
                    map.set_max_entries(*entries).context("the room of a map")?;
                }
            }
            if optional {
                for mut program in open.progs_mut() {
                    program.set_autoload(true);
                }
            }
            open.load()
        });
        let object = loaded.map_err(|source: libbpf_rs::Error| BpfError::Refused {
            kind: kind.to_owned(),
            source,
            log,
        })?;
        Ok(Self {
            file,
            kind,
            object,
            _with: with,
        })
    }

    /// Returns the descriptor of a program, for a filter in `direct-action` mode (cls_bpf).
    pub(crate) fn program(&self, name: &str) -> Result<OwnedFd, BpfError> {
        let mut programs = self.object.progs();
        let program = programs
            .find(|program| program.name() == name)
            .ok_or(BpfError::NoProgram(self.file))?;
        let copied = program.as_fd().try_clone_to_owned();
        copied.map_err(|error| self.unusable("held", error.into()))
    }

    /// Attaches a program at egress of a device in the network namespace of this thread, after
    /// the existing ones. It is detached when the returned value is dropped.
    pub(crate) fn at_egress(&self, name: &str, ifindex: u32) -> Result<Attached, BpfError> {
        let attached = Attached::to(self.program(name)?.as_fd(), ifindex, End::Egress);
        attached.map_err(|error| self.unusable("attached", error))
    }

    /// Attaches every loaded program as its section says. They are detached when the returned
    /// value is dropped.
    pub(crate) fn attach(&self) -> Result<Vec<Link>, BpfError> {
        let attached = |program: libbpf_rs::ProgramMut<'_>| {
            program
                .attach()
                .map_err(|source| self.unusable("attached", source))
        };
        let programs = self.object.progs_mut();
        let loaded = programs.filter(|program| program.autoload());
        loaded.map(attached).collect()
    }

    /// Registers the qdisc kind or the congestion control of the object file, until the returned
    /// value is dropped. `ops` is its name in the file.
    pub(crate) fn register(&mut self, ops: &str) -> Result<Link, BpfError> {
        let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
        let ops = self.object.maps_mut().find(|map| map.name() == ops);
        let link = ops
            .ok_or_else(missing)
            .and_then(|mut ops| ops.attach_struct_ops());
        link.map_err(|source| self.unusable("registered", source))
    }

    /// Pins every program in a folder of a BPF file system, by its name.
    pub(crate) fn pin(&mut self, folder: &Path) -> Result<(), BpfError> {
        for mut program in self.object.progs_mut() {
            let path = folder.join(program.name());
            let pinned = program.pin(&path);
            pinned.map_err(|source| BpfError::Pin {
                path,
                doing: "made",
                source,
            })?;
        }
        Ok(())
    }

    /// Runs a program once on an Ethernet frame with this mark. Its maps keep their contents
    /// between runs.
    pub(crate) fn run(&self, name: &str, frame: &[u8], mark: u32) -> Result<Ran, BpfError> {
        let given = Given {
            mark,
            ..Given::default()
        };
        self.run_as(name, frame, given)
    }

    /// Runs a program once on a frame with further properties.
    pub(crate) fn run_as(&self, name: &str, frame: &[u8], given: Given) -> Result<Ran, BpfError> {
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|program| program.name() == name)
            .ok_or(BpfError::NoProgram(self.file))?;
        let (gso_segs, gso_size) = given.merged;
        let mut before = __sk_buff {
            mark: given.mark,
            priority: given.priority,
            gso_segs,
            gso_size,
            ..__sk_buff::new_zeroed()
        };
        let mut context = [0_u8; CONTEXT_BACK];
        let mut after = vec![0_u8; frame.len()];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut after),
            context_in: Some(before.as_mut_bytes()),
            context_out: Some(&mut context),
            ..ProgramInput::default()
        };
        let output = program.test_run(input);
        let dropped = output
            .map_err(|source| self.unusable("run", source))?
            .return_value
            == TC_ACT_SHOT.cast_unsigned();
        let context = __sk_buff::read_from_prefix(&context);
        let (context, _) = context.unwrap_or((__sk_buff::new_zeroed(), &[]));
        Ok(Ran {
            dropped,
            frame: after,
            mark: context.mark,
            priority: context.priority,
        })
    }

    /// Returns a typed map.
    pub(crate) fn map<K: Layout, V: Layout>(
        &self,
        name: &'static str,
    ) -> Result<Map<K, V>, BpfError> {
        Map::of(self.kind, name, self.handle(name))
    }

    /// Returns an untyped map.
    pub(crate) fn handle(&self, name: &str) -> Option<MapHandle> {
        let map = self.object.maps().find(|map| map.name() == name)?;
        MapHandle::try_from(&map).ok()
    }

    fn unusable(&self, doing: &'static str, source: libbpf_rs::Error) -> BpfError {
        BpfError::Program {
            name: self.kind,
            doing,
            source,
        }
    }
}

/// Returns a function that takes the maps of the loaded program with this identifier by name,
/// each at most once. Returns `None` if there is no such program.
pub(crate) fn maps_of(id: u32) -> Option<impl FnMut(&str) -> Option<MapHandle>> {
    WithPrograms::here()?;
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let info = ProgInfoIter::with_query_opts(options).find(|info| info.id == id)?;
    let maps = info.map_ids.iter();
    let mut maps: Vec<MapHandle> = maps
        .filter_map(|id| MapHandle::from_map_id(*id).ok())
        .collect();
    Some(move |name: &str| {
        let at = maps.iter().position(|map| map.name() == name)?;
        Some(maps.swap_remove(at))
    })
}

impl tuple {
    /// Returns the source and the destination of the flow; `None` for an unknown IP version.
    pub(crate) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let ports = self.ports.map(u16::from_be);
        let end = |side: usize| Some(SocketAddr::new(self.address(side)?, ports[side]));
        Some((end(0)?, end(1)?))
    }

    /// Returns the source address (0) or the destination address (1).
    pub(crate) fn address(&self, side: usize) -> Option<IpAddr> {
        address(self.version, self.address[side].as_bytes())
    }
}

/// Returns an address as the tuple has it: in network byte order, IPv4 in the first word.
pub(crate) fn words(address: IpAddr) -> [u32; 4] {
    let mut words = [0; 4];
    let bytes = words.as_mut_bytes();
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes.copy_from_slice(&address.octets()),
    }
    words
}

/// Converts the leading bytes to an address of this IP version.
pub(crate) fn address(version: u8, bytes: &[u8]) -> Option<IpAddr> {
    Some(match version {
        4 => Ipv4Addr::from_octets(*bytes.first_chunk()?).into(),
        6 => Ipv6Addr::from_octets(*bytes.first_chunk()?).into(),
        _ => return None,
    })
}
