// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places of a topology, and their text form: `host1`, `gateway`, `provider`, `server2`.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A place in the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// `host<n>`, counted from 1.
    Host(u16),
    /// The gateway, where policies are applied.
    Gateway,
    /// The provider's end of the access line.
    Provider,
    /// `server<n>`, counted from 1.
    Server(u16),
}

/// Occurs when a text does not name a node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a place; write `host1`, `gateway`, `provider` or `server1`")]
pub struct NodeError {
    text: String,
}

impl FromStr for Node {
    type Err = NodeError;

    fn from_str(text: &str) -> Result<Self, NodeError> {
        let numbered = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?;
            // Refuse `host+1` and `host01`: they would be other spellings of `host1`.
            let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
            digits.parse().ok().filter(|_| plain)
        };
        match text {
            "gateway" => Ok(Self::Gateway),
            "provider" => Ok(Self::Provider),
            _ => numbered("host")
                .map(Self::Host)
                .or_else(|| numbered("server").map(Self::Server))
                .ok_or_else(|| NodeError {
                    text: text.to_owned(),
                }),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(number) => write!(f, "host{number}"),
            Self::Gateway => f.write_str("gateway"),
            Self::Provider => f.write_str("provider"),
            Self::Server(number) => write!(f, "server{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Node;

    #[test]
    fn nodes_have_one_spelling() {
        for node in [
            Node::Host(1),
            Node::Gateway,
            Node::Provider,
            Node::Server(65535),
        ] {
            assert_eq!(node.to_string().parse(), Ok(node));
        }
        for wrong in [
            "host",
            "host0",
            "host01",
            "host+1",
            "host65536",
            "Gateway",
            "",
        ] {
            assert!(wrong.parse::<Node>().is_err(), "{wrong}");
        }
    }
}
