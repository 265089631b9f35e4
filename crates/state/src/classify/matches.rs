// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matches: constructors, and what they look at.

use crate::classify::field::{Field, TCP};
use crate::classify::value::IpVersion;
use crate::classify::{Match, Meter, Values};

impl Match {
    /// Returns a test for one value.
    #[must_use]
    pub fn one(field: Field, value: u128) -> Self {
        Self::range(field, value, value)
    }

    /// Returns a test for values from..=to.
    #[must_use]
    pub fn range(field: Field, from: u128, to: u128) -> Self {
        Self::Test {
            field,
            negated: false,
            values: Values::Range(from, to),
        }
    }

    /// Returns a test for values in a set.
    #[must_use]
    pub fn within(field: Field, set: &str) -> Self {
        Self::Test {
            field,
            negated: false,
            values: Values::Set(set.to_owned()),
        }
    }

    /// Returns a test for a text.
    #[must_use]
    pub fn text(field: Field, text: &str) -> Self {
        Self::Test {
            field,
            negated: false,
            values: Values::Text(text.to_owned()),
        }
    }

    /// Returns a test for an IP version.
    #[must_use]
    pub fn version_is(version: IpVersion) -> Self {
        Self::one(Field::Version, version.number())
    }

    /// Returns a test that the flags under `mask` equal `value`.
    #[must_use]
    pub fn tcp_flags(mask: u8, value: u8) -> Self {
        Self::one(Field::TcpFlags { mask }, u128::from(value))
    }

    /// Returns the opposite match; a meter matches on its other side. A match in another program's
    /// rule stays as it is.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Test {
                field,
                negated,
                values,
            } => Self::Test {
                field,
                negated: !negated,
                values,
            },
            Self::TcpPayloadEmpty { version, negated } => Self::TcpPayloadEmpty {
                version,
                negated: !negated,
            },
            Self::Meter(meter) => Self::Meter(Meter {
                over: !meter.over,
                ..meter
            }),
            other @ Self::Other(_) => other,
        }
    }

    /// Returns the field that it looks at.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        match self {
            Self::Test { field, .. } | Self::Meter(Meter { field, .. }) => Some(*field),
            _ => None,
        }
    }

    /// Returns the IP version that a packet must have to match.
    #[must_use]
    pub fn version(&self) -> Option<IpVersion> {
        match self {
            Self::TcpPayloadEmpty { version, .. } => Some(*version),
            other => other.field().and_then(Field::version),
        }
    }

    /// Returns the upper-layer protocol that a packet must have to match.
    #[must_use]
    pub fn protocol(&self) -> Option<u8> {
        match self {
            Self::TcpPayloadEmpty { .. } => Some(TCP),
            other => other.field().and_then(Field::protocol),
        }
    }

    /// Returns whether it only matches packets of stated protocols.
    #[must_use]
    pub fn names_protocol(&self) -> bool {
        let stated = matches!(
            self,
            Self::Test {
                field: Field::Protocol,
                negated: false,
                ..
            }
        );
        stated || self.protocol().is_some()
    }
}
