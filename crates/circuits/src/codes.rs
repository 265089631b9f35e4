// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems that lists of circuits can have. A code never changes its
//! meaning.

/// Every code of this crate and what it means.
pub const CODES: &[(&str, &str)] = &[
    (KIND, "A file of circuits is empty, or its kind is unknown."),
    (
        FORM,
        "A line of a CSV file has a misplaced quote or too many fields.",
    ),
    (
        COLUMN,
        "A column of a CSV file is missing or occurs more than once.",
    ),
    (
        NAME,
        "An identifier of a circuit, site or plan is missing, too long, or has invalid characters.",
    ),
    (
        ADDRESS,
        "A text is not an address or prefix of this IP version.",
    ),
    (RATE, "A text is not a rate, or the rate is out of range."),
    (ORDER, "A guaranteed rate is larger than the maximum rate."),
    (
        TWICE,
        "A site, a plan, an override or a key of packets is duplicated.",
    ),
    (UNKNOWN, "A site or a plan does not exist."),
    (
        DIFFERS,
        "Two devices of one circuit have different rates, plans or parents.",
    ),
    (
        JSON,
        "A file of sites or of overrides is not JSON, or a value in it is of another type.",
    ),
    (
        DEEP,
        "The tree has too many levels, there are too many circuits or sites, or a file of JSON is too large.",
    ),
    (SWITCH, "A text is neither `yes` nor `no`."),
    (KEY, "A text is not a MAC address, VLAN or PPPoE session."),
    (
        SIZE,
        "A text is not a burst or quota, or the value is out of range.",
    ),
    (
        HOURS,
        "The hours, days, zone or quota of a plan are invalid.",
    ),
    (
        NOWHERE,
        "A site or a circuit of a domain's list belongs to no router, or to two.",
    ),
    (
        UNUSED,
        "A column or field has a value that is not used (warning).",
    ),
    (
        UNREACHED,
        "A circuit has no address or other key that identifies its packets (warning).",
    ),
    (
        SOLD,
        "The guarantees below a site exceed the site's rate (warning).",
    ),
    (
        ABSENT,
        "An override names a circuit, a device or a site that does not exist (warning).",
    ),
    (
        ELSEWHERE,
        "A key of packets occurs in the lists of two routers (warning).",
    ),
];

pub(crate) const KIND: &str = "L001";
pub(crate) const FORM: &str = "L002";
pub(crate) const COLUMN: &str = "L003";
pub(crate) const NAME: &str = "L004";
pub(crate) const ADDRESS: &str = "L005";
pub(crate) const RATE: &str = "L006";
pub(crate) const ORDER: &str = "L007";
pub(crate) const TWICE: &str = "L008";
pub(crate) const UNKNOWN: &str = "L009";
pub(crate) const DIFFERS: &str = "L010";
pub(crate) const JSON: &str = "L011";
pub(crate) const DEEP: &str = "L012";
pub(crate) const SWITCH: &str = "L013";
pub(crate) const KEY: &str = "L014";
pub(crate) const SIZE: &str = "L015";
pub(crate) const HOURS: &str = "L016";
pub(crate) const NOWHERE: &str = "L017";
pub(crate) const UNUSED: &str = "L201";
pub(crate) const UNREACHED: &str = "L202";
pub(crate) const SOLD: &str = "L203";
pub(crate) const ABSENT: &str = "L204";
pub(crate) const ELSEWHERE: &str = "L205";
