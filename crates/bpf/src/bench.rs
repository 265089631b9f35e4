// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel-side tools for measuring costs: a sender in the kernel, the smallest possible BPF
//! qdisc, and the run times of programs.

use crate::error::BpfError;
use crate::layout::__sk_buff;
use crate::programs::{self, log};
use crate::qdisc::load::load;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, Object, ObjectBuilder, ProgramInput, ProgramType};
use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};
use weirgate_units::Inserted as _;
use zerocopy::{FromZeros, IntoBytes};

/// The object file of the sender, and its programs.
const SEND: &str = "send";
const SEND_PROGRAM: &str = "bench_send";
const CIRCUITS_PROGRAM: &str = "bench_circuits";

/// Sends copies of a packet from inside the kernel.
#[derive(Debug)]
pub struct Sender(Object);

/// The packets to send.
#[derive(Debug, Clone, Copy)]
pub struct Copies<'a> {
    /// The packet, with its link-layer header.
    pub packet: &'a [u8],
    /// Its `skb->priority`.
    pub priority: u32,
    /// The device from which they seem to have arrived; an IFB returns them there.
    pub from: u32,
    /// The device that sends them.
    pub to: u32,
    /// The number of copies, up to 1,024, without a softirq between them.
    pub count: u32,
}

/// The circuits of the copies. Each copy belongs to a flow of its own.
#[derive(Debug, Clone, Copy)]
pub struct Circuits {
    /// The `skb->priority` of the first circuit.
    pub first: u32,
    /// The number of circuits.
    pub count: u32,
    /// Whether to use circuits in order, continuing after the last call; otherwise they are
    /// random.
    pub turns: bool,
}

impl Sender {
    /// Loads the programs. Needs root.
    pub fn load() -> Result<Self, BpfError> {
        let object = programs::named(SEND).ok_or(BpfError::NoProgram(SEND))?;
        let (loaded, log) = log::recorded(|| {
            ObjectBuilder::default()
                .name(SEND)?
                .open_memory(&object)?
                .load()
        });
        loaded.map(Self).map_err(|source| BpfError::Refused {
            kind: SEND.to_owned(),
            source,
            log,
        })
    }

    /// Sends the copies. It does not report whether the device accepted the packets.
    pub fn send(&mut self, copies: &Copies<'_>) -> Result<(), BpfError> {
        self.run(SEND_PROGRAM, copies, [0; 3])
    }

    /// Sends copies for circuits, whose numbers replace the priority.
    pub fn send_of(&mut self, copies: &Copies<'_>, of: Circuits) -> Result<(), BpfError> {
        let words = [of.first, of.count, u32::from(of.turns)];
        self.run(CIRCUITS_PROGRAM, copies, words)
    }

    fn run(
        &mut self,
        name: &str,
        copies: &Copies<'_>,
        [first, count, turns]: [u32; 3],
    ) -> Result<(), BpfError> {
        let mut context = __sk_buff {
            priority: copies.priority,
            ingress_ifindex: copies.from,
            cb: [copies.to, copies.count, first, count, turns],
            ..__sk_buff::new_zeroed()
        };
        let programs = self.0.progs_mut();
        let mut named = programs.filter(|program| program.name() == name);
        let program = named.next().ok_or(BpfError::NoProgram(SEND))?;
        let input = ProgramInput {
            context_in: Some(context.as_mut_bytes()),
            data_in: Some(copies.packet),
            ..ProgramInput::default()
        };
        program
            .test_run(input)
            .map(|_| ())
            .map_err(|source| BpfError::Refused {
                kind: SEND.to_owned(),
                source,
                log: String::new(),
            })
    }
}

/// The smallest qdisc, registered as [`Least::KIND`] until it is dropped. It has a single global
/// queue, so only one device may use it at a time.
#[derive(Debug)]
pub struct Least {
    _link: Link,
}

impl Least {
    /// The name of the kind for netlink.
    pub const KIND: &'static str = "weir_bench_fifo";

    /// Loads it. Needs root and a kernel with `CONFIG_NET_SCH_BPF`.
    pub fn load() -> Result<Self, BpfError> {
        let (_, link) = load("fifo", Self::KIND, &[])?;
        Ok(Self { _link: link })
    }
}

/// The run time of a program since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// The number of runs.
    pub runs: u64,
    /// The time in nanoseconds, including the functions that it calls.
    pub nanos: u64,
}

/// Makes the kernel measure the run time of every program while this exists. This slows down all
/// programs.
#[derive(Debug)]
pub struct Timed {
    _statistics: OwnedFd,
}

impl Timed {
    /// Starts measuring. Needs root.
    pub fn begin() -> Result<Self, BpfError> {
        #[expect(unsafe_code, reason = "libbpf's own call has no safe form")]
        // SAFETY: the call takes an integer and returns a descriptor or an error.
        let file = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if file < 0 {
            return Err(BpfError::Refused {
                kind: "run times of programs".to_owned(),
                source: libbpf_rs::Error::from_raw_os_error(-file),
                log: String::new(),
            });
        }
        #[expect(unsafe_code, reason = "so is what it gives")]
        // SAFETY: the descriptor is new and has no other owner.
        let statistics = unsafe { OwnedFd::from_raw_fd(file) };
        Ok(Self {
            _statistics: statistics,
        })
    }

    /// Returns the run times of the programs of all qdiscs so far, by name.
    #[must_use]
    pub fn spent(&self) -> BTreeMap<String, Spent> {
        ProgInfoIter::default()
            .filter(|program| program.ty == ProgramType::StructOps)
            .map(|program| {
                let spent = Spent {
                    runs: program.run_cnt,
                    nanos: program.run_time_ns,
                };
                (program.name.to_string_lossy().into_owned(), spent)
            })
            .inserted()
    }
}
