// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The workshop for disciplines: creates one, tests and fuzzes it as an ordinary program, measures
//! it, runs kernels' verifiers on it, and replays recordings.
//!
//! Sources are checked by [`lint`] before a compiler sees them:
//!
//! ```
//! let mistakes = weirgate_workshop::lint::mistakes("int spin(void)\n{\n\tfor (;;)\n\t\t;\n}\n");
//! assert_eq!(mistakes.len(), 1);
//! assert_eq!(mistakes[0].0, 3, "its line");
//! ```

pub mod bench;
pub mod capture;
pub mod frames;
pub mod kit;
pub mod lint;
pub mod replay;
pub mod script;
mod shaper;
pub mod verify;
pub mod work;
