// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with a recording.

use thiserror::Error;

/// Occurs when a recording does not fit the experiment or itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MeasureError {
    /// Occurs when a record names an entry of a list that is shorter.
    #[error(
        "the recording of arm `{arm}` is inconsistent: a {record} record names {list} number \
         {index}, but there are {known}"
    )]
    Index {
        /// The arm.
        arm: String,
        /// Kind of the record.
        record: &'static str,
        /// The list that it points into.
        list: &'static str,
        /// The number named.
        index: u16,
        /// How many the list has.
        known: usize,
    },
    /// Occurs when a flow of the recording is no traffic and no probe of the
    /// experiment: the recording belongs to another version of the file.
    #[error(
        "the recording of arm `{arm}` has a flow `{flow}` that the experiment `{experiment}` \
         does not have; run the experiment again"
    )]
    UnknownFlow {
        /// The arm.
        arm: String,
        /// The flow's name.
        flow: String,
        /// The experiment's name.
        experiment: String,
    },
    /// Occurs when the recording is of an arm that the experiment does not have.
    #[error(
        "the recording is of arm `{arm}`, which the experiment `{experiment}` does not have; its \
         arms are {known}"
    )]
    UnknownArm {
        /// The arm.
        arm: String,
        /// The experiment's name.
        experiment: String,
        /// The arms it has.
        known: String,
    },
    /// Occurs when the recording claims to be longer than any run.
    #[error("the recording of arm `{arm}` is damaged: it claims to last {seconds} s")]
    Duration {
        /// The arm.
        arm: String,
        /// Its length.
        seconds: u64,
    },
}
