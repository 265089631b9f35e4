// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of fields for a packet, its connection or the time.

use crate::packet::{Found, IPV4, IPV6, number};
use crate::run::{Run, Unknown};
use crate::sender::{self, SenderValue};
use weirgate_state::{Field, Header, IpVersion};
use weirgate_units::Handle;

/// A field's value.
pub(super) enum Value {
    /// A number.
    Number(u128),
    /// A text.
    Text(String),
    /// The packet does not have the field.
    Absent,
}

impl Run<'_, '_> {
    fn network(&mut self, offset: usize, length: usize) -> Value {
        match self.packet.at(offset, length) {
            Found::Bytes(bytes) => Value::Number(number(&bytes)),
            Found::Absent => Value::Absent,
            Found::CutOff => {
                self.pass.unknown.push(Unknown::CutOff);
                Value::Absent
            }
        }
    }

    /// Reads bytes after the IP headers. In a fragment other than the first, these are payload, or
    /// the IPv6 header itself. The kernel does not check for fragments if a value has 1, 2 or 4
    /// bytes and is in the packet's first buffer (`nft_payload_fast_eval`,
    /// net/netfilter/nf_tables_core.c). All values that rules look at here are of this kind.
    fn transport(&mut self, offset: usize, length: usize) -> Value {
        if let Some((ip, header)) = self.frame.fixed() {
            return self.network(ip + header + offset, length);
        }
        if self.headers.version.is_none() {
            return Value::Absent;
        }
        self.network(self.headers.transport + offset, length)
    }

    /// Evaluates [`Match::TcpPayloadEmpty`], from lengths alone.
    pub(super) fn payload_empty(&mut self, version: IpVersion) -> Option<bool> {
        let ip = self.frame.fixed().map_or(0, |(ip, _)| ip);
        let (length, header) = match version {
            IpVersion::V4 => {
                let Value::Number(length) = self.network(ip + 2, 2) else {
                    return None;
                };
                let Value::Number(first) = self.network(ip, 1) else {
                    return None;
                };
                (length, (first & 0xf) * 4)
            }
            IpVersion::V6 => {
                let Value::Number(length) = self.network(ip + 4, 2) else {
                    return None;
                };
                (length, 0)
            }
        };
        let Value::Number(offset) = self.transport(12, 1) else {
            return None;
        };
        let words = offset >> 4;
        let possible = words >= 5 && (version == IpVersion::V6 || header >= 20);
        Some(possible && length == header + words * 4)
    }

    fn connection(&self) -> Option<&crate::track::Connection> {
        let id = self.context.tracked?.connection?;
        self.context.tracker.get(id)
    }

    pub(super) fn value(&mut self, field: Field) -> Value {
        let of = |value: Option<u128>| value.map_or(Value::Absent, Value::Number);
        let masked = |value: Value| match value {
            Value::Number(bytes) => Value::Number(field.of_raw(bytes)),
            other => other,
        };
        if let Some((offset, length)) = self.frame.location(field) {
            return masked(self.network(offset, length));
        }
        if let Some(known) = field.sender_word() {
            return self.of_sender(field, known.word);
        }
        if let Some(bytes) = field.header_bytes() {
            return masked(match bytes.header {
                Header::Ip => self.network(bytes.offset, bytes.length),
                Header::Upper => self.transport(bytes.offset, bytes.length),
            });
        }
        match field {
            // `netdev` uses the ethertype; `inet` only sees IP.
            Field::Version => match self.packet.ethertype {
                IPV4 => Value::Number(4),
                IPV6 => Value::Number(6),
                _ => Value::Number(0),
            },
            Field::EtherType => Value::Number(self.packet.ethertype.into()),
            Field::PppProtocol => self.network(6, 2),
            Field::Protocol => match self.headers.version {
                Some(_) => Value::Number(self.headers.protocol.into()),
                None => Value::Absent,
            },
            // Only IPv6 comes here: that of IPv4 is in its header.
            Field::FragmentOffset(_) => {
                let fragment = self.headers.fragment_header;
                of(fragment.map(|_| (self.headers.fragment / 8) as u128))
            }
            Field::InputDevice => {
                Value::Text(self.context.input.map(str::to_owned).unwrap_or_default())
            }
            Field::InputKind => of(self.context.input.map(|_| 1)),
            Field::SourceMac => {
                if self.packet.source_mac.is_none() {
                    self.pass.unknown.push(Unknown::SourceMac);
                }
                of(self.packet.source_mac.map(u128::from))
            }
            Field::Mark { mask } => Value::Number((self.packet.mark & mask).into()),
            Field::Class => {
                let class = self.pass.class.map_or(0, Handle::as_u32);
                Value::Number(class.into())
            }
            Field::Moment | Field::Hour | Field::Day => {
                if self.context.clock.is_none() {
                    self.pass.unknown.push(Unknown::Time);
                }
                let seconds = self.context.clock.unwrap_or_default();
                let value = match field {
                    Field::Moment => seconds.saturating_mul(1_000_000_000),
                    Field::Hour => seconds.rem_euclid(86_400),
                    // 1 January 1970 was a Thursday.
                    _ => (seconds.div_euclid(86_400) + 4).rem_euclid(7),
                };
                Value::Number(value as u128)
            }
            _ => self.of_connection(field),
        }
    }

    /// Returns a property of the sending socket: a number, or a path up to the level of the field.
    fn of_sender(&mut self, field: Field, word: &'static str) -> Value {
        // A packet that arrived has no local socket.
        if self.context.input.is_some() {
            return Value::Absent;
        }
        match self.packet.sender.get(word) {
            Some(SenderValue::Number(number)) => Value::Number((*number).into()),
            Some(SenderValue::Path(path)) => match sender::cut(path, field.level().unwrap_or(0)) {
                Some(above) => Value::Text(above),
                None => Value::Absent,
            },
            None => {
                let what = field.words();
                self.pass.unknown.push(Unknown::Sender { what, word });
                Value::Absent
            }
        }
    }

    fn of_connection(&self, field: Field) -> Value {
        let of = |value: Option<u128>| value.map_or(Value::Absent, Value::Number);
        if let Field::ConnectionState { mask } = field {
            let state = self.context.tracked.map(|tracked| tracked.state & mask);
            return of(state.map(u128::from));
        }
        let Some(connection) = self.connection() else {
            return Value::Absent;
        };
        match field {
            Field::ConnectionMark { mask } => Value::Number((connection.mark & mask).into()),
            Field::ConnectionBytes => Value::Number(connection.bytes.into()),
            Field::ConnectionPackets => Value::Number(connection.packets.into()),
            Field::ConnectionMeanSize => {
                let mean = connection.bytes.checked_div(connection.packets);
                Value::Number(mean.unwrap_or(0).into())
            }
            Field::ConnectionId => {
                let id = self.context.tracked.and_then(|tracked| tracked.connection);
                of(id.map(u128::from))
            }
            // Only an expected connection has the helper's name.
            Field::Helper => match &connection.helper {
                Some(helper) if connection.expected => Value::Text(helper.clone()),
                _ => Value::Absent,
            },
            _ => Value::Absent,
        }
    }
}
