// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems that lists of circuits can have. A code never changes its
//! meaning.

/// Every code of this crate and what it means.
pub const CODES: &[(&str, &str)] = &[
    (
        KIND,
        "A file of circuits is of no kind that is known, or has nothing in it.",
    ),
    (
        FORM,
        "A line of a CSV file has a quote or a number of fields that does not fit.",
    ),
    (
        COLUMN,
        "A column of a CSV file is missing, or stands there twice.",
    ),
    (
        NAME,
        "An identifier of a circuit, site or plan is missing, too long, or has characters that it cannot have.",
    ),
    (
        ADDRESS,
        "A text is no address or prefix of this IP version.",
    ),
    (RATE, "A text is no rate, or one that is out of its range."),
    (ORDER, "A guaranteed rate is larger than the largest rate."),
    (
        TWICE,
        "A site, a plan, an override, or what tells whose a packet is stands there twice.",
    ),
    (UNKNOWN, "A site or a plan is named that is not there."),
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
    (KEY, "A text is no MAC address, VLAN or session of PPPoE."),
    (
        SIZE,
        "A text is no burst or quota, or one that is out of its range.",
    ),
    (
        HOURS,
        "Hours, days, a zone or a quota of a plan are not what they can be.",
    ),
    (
        NOWHERE,
        "A site or a circuit of a domain's list is of no router, or of two.",
    ),
    (
        UNUSED,
        "Something is there that circuits do not use (warning).",
    ),
    (
        UNREACHED,
        "A circuit has no address and nothing else that tells its packets (warning).",
    ),
    (
        SOLD,
        "What is guaranteed below a site is more than the site has (warning).",
    ),
    (
        ABSENT,
        "An override is of a circuit, a device or a site that is not there (warning).",
    ),
    (
        ELSEWHERE,
        "What tells whose a packet is stands in the lists of two routers (warning).",
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
