// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tcp-flags` and `pure-ack`: flags of the TCP header, and acknowledgements without data.

use crate::codes;
use crate::condition::facts::{Carrier, ConditionRow, Conditions, Facts, Finding};
use crate::condition::length::PacketLengths;
use crate::condition::number::Misread;
use crate::field::FieldKind;
use crate::read::{choose, one_of};
use weirgate_document::{SourceSpan, Value};

/// The largest length of a packet without TCP payload: two headers of 60 bytes.
pub const LONGEST_PURE_ACK: u16 = 120;

/// TCP flags: of the flags in `mask`, exactly those in `value` are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFlags {
    /// The flags that are tested, as in byte 14 of the header.
    pub mask: u8,
    /// The required values of these flags.
    pub value: u8,
}

/// The names and bits of flags (RFC 9293 section 3.1).
const FLAGS: [(&str, u8); 8] = [
    ("fin", 0x01),
    ("syn", 0x02),
    ("rst", 0x04),
    ("psh", 0x08),
    ("ack", 0x10),
    ("urg", 0x20),
    ("ece", 0x40),
    ("cwr", 0x80),
];

impl TcpFlags {
    /// The flags of a pure ACK: ACK, and none of SYN, FIN, RST.
    pub const PURE_ACK: Self = Self {
        mask: 0x17,
        value: 0x10,
    };

    /// Parses `syn,ack/syn,ack,fin,rst` as value and mask; `syn` alone tests no other flag.
    fn read(text: &str) -> Result<Self, Misread> {
        let (value, mask) = match text.split_once('/') {
            Some((value, mask)) => (flags(value)?, flags(mask)?),
            None => (flags(text)?, flags(text)?),
        };
        if mask == 0 {
            let hint = "name the flags to examine, such as `syn/syn,ack,fin,rst`".to_owned();
            return Err((format!("`{text}` examines no flag"), hint));
        }
        if value & !mask != 0 {
            let hint = "write flags before the `/` also after it".to_owned();
            return Err((format!("`{text}` never matches"), hint));
        }
        Ok(Self { mask, value })
    }

    /// Returns whether every packet that matches `other` also matches this.
    const fn contains(self, other: Self) -> bool {
        self.mask & other.mask == self.mask && other.value & self.mask == self.value
    }

    /// Returns whether no packet can match both.
    const fn excludes(self, other: Self) -> bool {
        let common = self.mask & other.mask;
        self.value & common != other.value & common
    }
}

fn flags(text: &str) -> Result<u8, Misread> {
    let names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty() && *name != "none");
    names.into_iter().try_fold(0, |bits, name| {
        let lower = name.to_ascii_lowercase();
        one_of(&lower, &FLAGS)
            .map(|bit| bits | bit)
            .ok_or_else(|| (format!("`{name}` is not a TCP flag"), choose(name, &FLAGS)))
    })
}

/// The flags that a packet must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flags(pub Value<TcpFlags>);

/// A pure ACK: TCP with ACK set, SYN, FIN and RST clear, and no payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PureAck(pub SourceSpan);

pub(crate) const FLAGS_ROW: ConditionRow = ConditionRow::new(
    "tcp-flags",
    FieldKind::Text("syn/syn,fin,rst"),
    "Of the flags after the `/`, exactly those before it are set: `fin`, `syn`, `rst`, `psh`, `ack`, \
     `urg`, `ece`, `cwr`, `none`",
    |cell, when| {
        if let Some(flags) = cell.understood(codes::TCP_FLAGS, TcpFlags::read) {
            when.add(Flags(flags));
        }
    },
);

pub(crate) const PURE_ACK: ConditionRow = ConditionRow::new(
    "pure-ack",
    FieldKind::Boolean,
    "Whether the packet is a TCP ACK without SYN, FIN, RST and payload, whatever its options \
     (SACK, timestamps)",
    |cell, when| {
        if let Some(span) = cell.flagged() {
            when.add(PureAck(span));
        }
    },
);

impl Facts for Flags {
    fn span(&self) -> Option<&SourceSpan> {
        Some(&self.0.span)
    }

    fn covers(&self, later: &Conditions) -> bool {
        let flags = later.find().map(|Self(flags)| flags.value);
        let pure = later.has::<PureAck>().then_some(TcpFlags::PURE_ACK);
        let mut later = flags.into_iter().chain(pure);
        later.any(|later| self.0.value.contains(later))
    }

    fn carrier(&self) -> Option<Carrier> {
        Some(Carrier::Tcp)
    }
}

impl Facts for PureAck {
    fn span(&self) -> Option<&SourceSpan> {
        Some(&self.0)
    }

    fn covers(&self, later: &Conditions) -> bool {
        later.has::<Self>()
    }

    fn carrier(&self) -> Option<Carrier> {
        Some(Carrier::Tcp)
    }

    fn longest(&self) -> Option<u16> {
        Some(LONGEST_PURE_ACK)
    }

    fn contradictions(&self, when: &Conditions, add: &mut dyn FnMut(Finding)) {
        let code = codes::CONTRADICTION;
        if let Some(Flags(flags)) = when.find()
            && flags.value.excludes(TcpFlags::PURE_ACK)
        {
            let wrong = "a pure ACK has ACK set and SYN, FIN and RST clear".to_owned();
            let right = "leave out `tcp-flags` or `pure-ack`";
            add((code, flags.span.clone(), wrong, right));
        }
        if let Some(PacketLengths(list)) = when.find()
            && list.iter().all(|one| one.value.from > LONGEST_PURE_ACK)
            && let Some(length) = list.first()
        {
            let wrong = format!("a pure ACK has at most {LONGEST_PURE_ACK} bytes");
            add((code, length.span.clone(), wrong, "leave out `length`"));
        }
    }
}
