// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in recordings.

use thiserror::Error;

/// The error of a recording that contradicts the experiment or itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MeasureError {
    /// A record names an index beyond the end of a list.
    #[error(
        "the recording of arm `{arm}` is inconsistent: a {record} record names {list} number \
         {index}, but there are {known}"
    )]
    Index {
        /// The arm.
        arm: String,
        /// The kind of the record.
        record: &'static str,
        /// The list that it points into.
        list: &'static str,
        /// The index.
        index: u16,
        /// The length of the list.
        known: usize,
    },
    /// A flow of the recording is neither traffic nor a probe of the experiment. The recording
    /// belongs to another version of the file.
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
    /// The recording is of an arm that the experiment does not have.
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
    /// The recording claims to be longer than any run.
    #[error("the recording of arm `{arm}` is damaged: it claims to last {seconds} s")]
    Duration {
        /// The arm.
        arm: String,
        /// Its length.
        seconds: u64,
    },
}
