// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's user space: what runs inside the virtual machine, or in
//! fresh namespaces of the running kernel.
//!
//! [`agent`] builds the topology, emulates the line, drives traffic and
//! records; [`charges`] asks the kernel what it counts for a packet. The binary
//! adds what PID 1 needs: mounts, modules, job and result.

pub mod agent;
pub mod charges;
