// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `connection`: the state of a packet's connection in connection tracking.

use crate::codes;
use crate::condition::facts::{ConditionRow, Facts};
use crate::condition::length::Lengths;
use crate::field::{self, FieldKind, Row, Table, Word, row, words};
use crate::read::{choose, one_of};
use weirgate_document::{SourceSpan, Value};
use weirgate_units::Size;

/// A state of connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Packets before the first reply.
    New,
    /// Packets of a connection that has had a reply.
    Established,
    /// The first packets of a connection that another one announced, such as FTP data, and ICMP
    /// errors.
    Related,
    /// Packets that belong to no connection.
    Invalid,
}

words!(ConnectionState:
    "new" => Self::New,
    "established" => Self::Established,
    "related" => Self::Related,
    "invalid" => Self::Invalid,
);

/// Conditions on the packet's connection, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// The accepted states.
    pub states: Vec<Value<ConnectionState>>,
    /// Its conntrack helper, such as `ftp`.
    pub helper: Option<Value<String>>,
    /// A number of bytes that it must have exceeded, both directions together.
    pub bytes_over: Option<Value<Size>>,
    /// A number of packets that it must have exceeded, both directions together.
    pub packets_over: Option<Value<u64>>,
    /// The range of its mean IP packet size in bytes, both directions together.
    pub mean_size: Option<Value<Lengths>>,
}

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "connection",
    FieldKind::Table("connection"),
    "What connection tracking knows",
    |cell, when| {
        let Some(mut table) = cell.table() else {
            return;
        };
        let mut found = Connection::default();
        field::read(&mut table, ROWS, &(), &mut found);
        if table.is_empty() {
            let known: Vec<&str> = ROWS.iter().map(Row::name).collect();
            table.problems().error(
                codes::CONNECTION,
                table.span(),
                "`connection` has no condition",
                format!("name at least one of {}", known.join(", ")),
            );
        }
        if found != Connection::default() {
            when.add(found);
        }
    },
);

/// The table `[rule.connection]`.
pub(crate) const TABLE: Table = Table {
    name: "connection",
    about: "What connection tracking knows",
    rows: &[&ROWS],
};

const ROWS: &[Row<Connection>] = &[
    Row::new(
        "state",
        ConnectionState::LIST,
        "The states of the connection",
        |cell, connection: &mut Connection| {
            connection.states = cell.list(codes::CONNECTION, |text| {
                one_of(text, ConnectionState::WORDS).ok_or_else(|| {
                    let wrong = format!("`{text}` is not a state of a connection");
                    (wrong, choose(text, ConnectionState::WORDS))
                })
            });
        },
    ),
    Row::new(
        "helper",
        FieldKind::Text("ftp"),
        "The conntrack helper of the connection",
        |cell, connection| connection.helper = cell.understood(codes::CONNECTION, helper),
    ),
    row!(Connection: "bytes-over" => bytes_over,
        "The connection has carried more bytes than this, both directions together"),
    row!(Connection: "packets-over": FieldKind::Integer(1, i64::MAX) => packets_over,
        "The connection has carried more packets than this, both directions together"),
    Row::new(
        "mean-size",
        FieldKind::Text("0-200"),
        "The connection's mean packet size so far, in bytes; ranges",
        |cell, connection| connection.mean_size = cell.understood(codes::LENGTH, Lengths::read),
    ),
];

fn helper(text: &str) -> Result<String, (String, String)> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    if text.is_empty() || text.len() > 15 || !text.bytes().all(plain) {
        let wrong = format!("`{text}` cannot be the name of a conntrack helper");
        let right = "write one such as `ftp`, `sip`, `tftp`, `irc`, `pptp`, `h323`";
        return Err((wrong, right.to_owned()));
    }
    Ok(text.to_owned())
}

impl Facts for Connection {
    fn span(&self) -> Option<&SourceSpan> {
        let states = self.states.first().map(|one| &one.span);
        let helper = self.helper.as_ref().map(|one| &one.span);
        let bytes = self.bytes_over.as_ref().map(|one| &one.span);
        let packets = self.packets_over.as_ref().map(|one| &one.span);
        let size = self.mean_size.as_ref().map(|one| &one.span);
        states.or(helper).or(bytes).or(packets).or(size)
    }
}
