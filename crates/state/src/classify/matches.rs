// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Matches: how they are made, and what they look at.

use crate::classify::field::{Field, TCP};
use crate::classify::value::IpVersion;
use crate::classify::{Match, Meter, Values};

impl Match {
    /// The field has this value.
    #[must_use]
    pub fn one(field: Field, value: u128) -> Self {
        Self::range(field, value, value)
    }

    /// The field has a value from..=to.
    #[must_use]
    pub fn range(field: Field, from: u128, to: u128) -> Self {
        Self::Test {
            field,
            negated: false,
            values: Values::Range(from, to),
        }
    }

    /// The field's value is in a set.
    #[must_use]
    pub fn within(field: Field, set: &str) -> Self {
        Self::Test {
            field,
            negated: false,
            values: Values::Set(set.to_owned()),
        }
    }

    /// The field is this text.
    #[must_use]
    pub fn text(field: Field, text: &str) -> Self {
        Self::Test {
            field,
            negated: false,
            values: Values::Text(text.to_owned()),
        }
    }

    /// The packet is of this IP version.
    #[must_use]
    pub fn version_is(version: IpVersion) -> Self {
        Self::one(Field::Version, version.number())
    }

    /// The flags of `mask` are as in `value`.
    #[must_use]
    pub fn tcp_flags(mask: u8, value: u8) -> Self {
        Self::one(Field::TcpFlags { mask }, u128::from(value))
    }

    /// The opposite; meters turn round, what cannot be turned stays.
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

    /// The field that it looks at.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        match self {
            Self::Test { field, .. } | Self::Meter(Meter { field, .. }) => Some(*field),
            _ => None,
        }
    }

    /// The IP version without which this cannot hold.
    #[must_use]
    pub fn version(&self) -> Option<IpVersion> {
        match self {
            Self::TcpPayloadEmpty { version, .. } => Some(*version),
            other => other.field().and_then(Field::version),
        }
    }

    /// The upper-layer protocol without which this cannot hold.
    #[must_use]
    pub fn protocol(&self) -> Option<u8> {
        match self {
            Self::TcpPayloadEmpty { .. } => Some(TCP),
            other => other.field().and_then(Field::protocol),
        }
    }

    /// Whether only packets of stated protocols fulfil it.
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
