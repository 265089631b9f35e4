// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes of problems in domain files. A code never changes its meaning.

/// Every code of this crate with its meaning.
pub const CODES: &[(&str, &str)] = &[
    (
        VERSION,
        "the file has a version that this weirgate does not read",
    ),
    (NAME, "a name is not allowed, or is given twice"),
    (WORD, "a word is not one that the field accepts"),
    (
        UNKNOWN,
        "a name refers to something that the file does not have",
    ),
    (LIMIT, "a value is out of a domain's range"),
    (
        SHARE,
        "shares sum to more than 100 %, or a promise is in a class without a share of its own",
    ),
    (LINK, "a link does not join two routers"),
    (PATH, "there is no path from one customer to the other"),
    (EMPTY, "the file describes nothing"),
    (
        NETWORK,
        "networks of two customers overlap, or a customer's address is in none of its own",
    ),
    (
        SELECT,
        "the selectors of a service cannot be used, or also select another service's packets",
    ),
    (
        UNFIT,
        "a class's behaviour does not permit over-subscription, or a share by precedence",
    ),
];

pub(crate) const VERSION: &str = "N101";
pub(crate) const NAME: &str = "N102";
pub(crate) const WORD: &str = "N103";
pub(crate) const UNKNOWN: &str = "N104";
pub(crate) const LIMIT: &str = "N105";
pub(crate) const SHARE: &str = "N106";
pub(crate) const LINK: &str = "N107";
pub(crate) const PATH: &str = "N108";
pub(crate) const EMPTY: &str = "N109";
pub(crate) const NETWORK: &str = "N110";
pub(crate) const SELECT: &str = "N111";
pub(crate) const UNFIT: &str = "N112";
