// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the native engine follow another host's engine by its records
//! (`aqm/host/engine/record.h`), call by call.

use super::ffi::{self, Node, NodeConfig, RawDeparture, Rule};
use super::node::{EngineSize, NodeRow, config};
use super::{Engine, Packet};
use crate::ffi::Link;
use crate::mirror::MirrorError;

/// `struct engine_record`: one call of a host.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineRecord {
    /// When, in the host's nanoseconds.
    pub now_ns: u64,
    /// On departure, where nothing may go: when to ask again; `u64::MAX` for never.
    pub opens_ns: u64,
    /// `enum engine_event`.
    pub event: u32,
    /// One more for every record.
    pub sequence: u32,
    /// The node; on departure the leaf that was chosen, or 0.
    pub node: u32,
    /// The packet's slot, or 0.
    pub slot: u32,
    /// On arrival and eviction: bytes of the packet that comes, as the device counts.
    pub len: u32,
    /// On arrival: bytes on the wire.
    pub wire: u32,
    /// On arrival: the flow's hash.
    pub flow: u32,
    /// On arrival: the host's.
    pub host: u32,
    /// On arrival whether there was room, on departure the verdict.
    pub action: u32,
    /// On departure the verdict's reason.
    pub reason: u32,
    /// On arrival: the ECN bits that the engine was given.
    pub ecn: u32,
    /// Nothing.
    pub pad: u32,
}

/// What a record was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineTaken {
    /// What it says comes next.
    Part,
    /// A rule of the whole.
    Ruled,
    /// A node whose configuration has changed.
    Changed,
    /// The leaf of a packet's host was looked for; whether it has one of its own.
    Placed(bool),
    /// A packet had to go for one that comes.
    Evicted,
    /// A packet came; whether it was kept.
    Arrived(bool),
    /// The host asked; whether it was given a packet to send, or to drop.
    Departed {
        /// A packet was sent.
        sent: bool,
        /// It was to be marked.
        marked: bool,
        /// A packet was dropped.
        dropped: bool,
    },
}

/// A native engine that follows records.
#[derive(Debug)]
pub struct EngineMirror {
    engine: Engine<()>,
    /// A record of which the rest is coming.
    coming: Option<EngineRecord>,
    next: Option<u32>,
    records: u64,
}

/// Numbers of `enum engine_event`.
const RULE: u32 = 1;
const CHANGE: u32 = 2;
const EVICT: u32 = 3;
const ARRIVE: u32 = 4;
const DEPART: u32 = 5;
const HOST: u32 = 6;

impl EngineMirror {
    /// One that begins with these rows of nodes, by their numbers, and nothing
    /// queued. A row beyond `size` is left out.
    pub fn new(size: EngineSize, rows: impl IntoIterator<Item = (u32, NodeRow)>) -> Self {
        let mut engine = Engine::empty(&Link::default(), size);
        for (id, row) in rows {
            if let Some(node) = engine.nodes.get_mut(id as usize) {
                node.config = config(row.parent, row.fork, &row.rule);
            }
        }
        Self {
            engine,
            coming: None,
            next: None,
            records: 0,
        }
    }

    /// A node's row in the bytes that it has in memory; `None` where there is none.
    pub fn row(&self, id: u32) -> Option<Vec<u8>> {
        let node = self.engine.nodes.get(id as usize)?;
        let words = std::ptr::from_ref(node).cast::<u8>();
        // SAFETY: a row is integers without padding, which a test sees.
        let bytes = unsafe { std::slice::from_raw_parts(words, size_of::<Node>()) };
        Some(bytes.to_vec())
    }

    /// Takes what a host recorded, in order, as it gave it. An error says that it
    /// cannot be read, or that something else comes out here.
    pub fn take(&mut self, bytes: &[u8]) -> Result<EngineTaken, MirrorError> {
        let at = self.records;
        self.records += 1;
        let malformed = |what| MirrorError::Malformed { at, what };
        if let Some(record) = self.coming.take() {
            return self.rest(&record, bytes, at);
        }
        let record: EngineRecord = read(bytes).ok_or_else(|| malformed("its length"))?;
        if let Some(next) = self.next.filter(|next| *next != record.sequence) {
            let missing = record.sequence.wrapping_sub(next);
            return Err(MirrorError::Lost { at, missing });
        }
        self.next = Some(record.sequence.wrapping_add(1));
        let mut own = EngineRecord {
            slot: 0,
            opens_ns: 0,
            action: 0,
            reason: 0,
            ..record
        };
        let (event, taken) = match record.event {
            RULE | CHANGE => {
                self.coming = Some(record);
                return Ok(EngineTaken::Part);
            }
            HOST => {
                let raw = self.engine.raw();
                // SAFETY: the memory is an engine's, set up with its rows.
                own.slot = unsafe { ffi::aqm_engine_leaf_of(raw, own.node, own.host) };
                ("host", EngineTaken::Placed(record.slot != record.node))
            }
            EVICT => {
                self.evict(&mut own);
                ("evict", EngineTaken::Evicted)
            }
            ARRIVE => {
                self.arrive(&record, &mut own);
                ("arrive", EngineTaken::Arrived(record.slot > 0))
            }
            DEPART => ("depart", self.depart(&mut own)),
            _ => return Err(malformed("an unknown event")),
        };
        if own == record {
            return Ok(taken);
        }
        Err(MirrorError::Verdict {
            at,
            event,
            recorded: format!("{record:?}"),
            own: format!("{own:?}"),
        })
    }

    /// What a rule or a change says.
    fn rest(
        &mut self,
        record: &EngineRecord,
        bytes: &[u8],
        at: u64,
    ) -> Result<EngineTaken, MirrorError> {
        let missing = MirrorError::Malformed {
            at,
            what: "what it says is missing",
        };
        if record.event == RULE {
            self.engine.rule = read(bytes).ok_or(missing)?;
            self.engine.setup();
            return Ok(EngineTaken::Ruled);
        }
        let config: NodeConfig = read(bytes).ok_or(missing)?;
        let node = self.engine.nodes.get_mut(record.node as usize);
        let node = node.ok_or(MirrorError::Malformed {
            at,
            what: "there is no such node",
        })?;
        node.config = config;
        self.engine.now_ns = record.now_ns;
        self.engine.look(record.node);
        Ok(EngineTaken::Changed)
    }

    fn evict(&mut self, own: &mut EngineRecord) {
        let raw = self.engine.raw();
        // SAFETY: the memory is an engine's, set up with its rows.
        let room = unsafe { ffi::aqm_engine_admit(raw, own.node, own.len) };
        if room == ffi::EVICT {
            // SAFETY: as above.
            own.slot = unsafe { ffi::aqm_engine_evict(raw, own.node) };
        }
    }

    fn arrive(&mut self, record: &EngineRecord, own: &mut EngineRecord) {
        let raw = self.engine.raw();
        // The last eviction did not suffice, and there was no other.
        if record.action == ffi::EVICT {
            own.action = ffi::EVICT;
            return;
        }
        // SAFETY: the memory is an engine's, set up with its rows.
        own.action = unsafe { ffi::aqm_engine_admit(raw, own.node, own.len) };
        if own.action != 0 {
            return;
        }
        let packet = Packet {
            arrived_ns: own.now_ns,
            len: own.len,
            wire: own.wire,
            flow: own.flow,
            ecn: own.ecn,
        };
        // SAFETY: as above.
        own.slot = unsafe { ffi::aqm_engine_arrive(raw, own.node, &raw const packet, own.host) };
    }

    fn depart(&mut self, own: &mut EngineRecord) -> EngineTaken {
        let mut departure = RawDeparture::default();
        // SAFETY: the memory is an engine's, set up with its rows.
        unsafe { ffi::aqm_engine_depart(self.engine.raw(), own.now_ns, &raw mut departure) };
        own.node = departure.leaf;
        own.slot = departure.slot;
        if departure.leaf == 0 {
            own.opens_ns = departure.opens_ns;
        } else {
            own.action = departure.verdict.action;
            own.reason = departure.verdict.reason;
        }
        let dropped = departure.slot != 0 && departure.verdict.action == DROP;
        EngineTaken::Departed {
            sent: departure.slot != 0 && !dropped,
            marked: departure.slot != 0 && departure.verdict.action == MARK,
            dropped,
        }
    }
}

/// `AQM_MARK` and `AQM_DROP`.
const MARK: u32 = 1;
const DROP: u32 = 2;

/// A structure of integers in this machine's byte order.
trait Integers: Copy {}

impl Integers for EngineRecord {}
impl Integers for Rule {}
impl Integers for NodeConfig {}

fn read<T: Integers>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are as many bytes, and any are such a structure.
    (bytes.len() == size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: EngineSize = EngineSize {
        nodes: 2,
        inner: 1,
        queues: 1,
        slots: 2,
        limit_bytes: 3_000,
        hosts: 0,
    };

    fn bytes(record: EngineRecord) -> Vec<u8> {
        let words = std::ptr::from_ref(&record).cast::<u8>();
        // SAFETY: a record is integers without padding.
        unsafe { std::slice::from_raw_parts(words, size_of::<EngineRecord>()) }.to_vec()
    }

    /// A packet that comes and goes, as a host would tell it; and what is not so is
    /// found.
    #[test]
    fn other_answers_are_found() {
        let row = |parent, fork| NodeRow {
            parent,
            fork,
            rule: super::super::NodeRule::default(),
        };
        let begun = || {
            let mut mirror = EngineMirror::new(SIZE, [(1, row(0, 1)), (2, row(1, 0))]);
            let rule = EngineRecord {
                event: RULE,
                ..EngineRecord::default()
            };
            assert_eq!(mirror.take(&bytes(rule)), Ok(EngineTaken::Part));
            let config = Rule {
                limit_bytes: 3_000,
                root: 1,
                ..Rule::default()
            };
            let words = std::ptr::from_ref(&config).cast::<u8>();
            // SAFETY: a rule is integers without padding.
            let config = unsafe { std::slice::from_raw_parts(words, size_of::<Rule>()) };
            assert_eq!(mirror.take(config), Ok(EngineTaken::Ruled));
            mirror
        };
        let arrival = EngineRecord {
            now_ns: 1_000_000_000,
            event: ARRIVE,
            sequence: 1,
            node: 2,
            slot: 1,
            len: 100,
            wire: 100,
            ..EngineRecord::default()
        };
        let departure = EngineRecord {
            event: DEPART,
            sequence: 2,
            len: 0,
            wire: 0,
            ..arrival
        };
        let mut mirror = begun();
        assert_eq!(mirror.take(&bytes(arrival)), Ok(EngineTaken::Arrived(true)));
        let sent = EngineTaken::Departed {
            sent: true,
            marked: false,
            dropped: false,
        };
        assert_eq!(mirror.take(&bytes(departure)), Ok(sent));
        for wrong in [
            EngineRecord { slot: 2, ..arrival },
            EngineRecord {
                action: 2,
                slot: 0,
                ..arrival
            },
            EngineRecord {
                event: EVICT,
                ..arrival
            },
            EngineRecord {
                event: 9,
                ..arrival
            },
            EngineRecord {
                sequence: 5,
                ..arrival
            },
        ] {
            assert!(begun().take(&bytes(wrong)).is_err(), "{wrong:?}");
        }
        let mut mirror = begun();
        mirror.take(&bytes(arrival)).expect("the packet");
        let none = EngineRecord {
            node: 0,
            slot: 0,
            opens_ns: u64::MAX,
            ..departure
        };
        assert!(mirror.take(&bytes(none)).is_err());
    }
}
