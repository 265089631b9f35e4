// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics for monitoring systems: OpenMetrics text on request, and remote write and OTLP to
//! receivers that the user configured.

mod encode;
pub(crate) mod openmetrics;
pub(crate) mod post;
pub(crate) mod push;
pub(crate) mod receiver;
