// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Divides a rate among the members that share it (`aqm/include/share.h`).

// Defined in `aqm/host/native/window.c`.
unsafe extern "C" {
    fn aqm_share_rate(sum: *const ShareSum, rate: u64, large: i32, more: u64, others: u64) -> u64;
    fn aqm_share_count(
        sum: *mut ShareSum,
        member: *mut ShareMember,
        part: u64,
        large: i32,
        whole: i32,
        now_ns: u64,
    );
    fn aqm_share_ended(sum: *mut ShareSum, member: *mut ShareMember);
}

/// A whole share, in the unit of parts.
pub const WHOLE_SHARE: u64 = 65_536;

/// The counters of all members that share a rate (`struct share_sum`).
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct ShareSum {
    epoch: u64,
    used: [[i64; 2]; 3],
}

/// One member (`struct share_member`).
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub struct ShareMember {
    epoch: u64,
    part: u64,
    counted: u64,
    large: u64,
}

impl ShareSum {
    /// Returns the rate of one member in bytes a second; 0 for no limit. `rate` is the total,
    /// and `large` selects members that have sent much. `more` shares are added to those in use.
    /// Traffic of `others` bytes a second is not limited and reduces the rest.
    pub fn rate(&self, rate: u64, large: bool, more: u64, others: u64) -> u64 {
        // SAFETY: the layout is that of C.
        unsafe { aqm_share_rate(self, rate, large.into(), more, others) }
    }

    /// Adds `part` to what a member uses of its share at this time. With `whole` it counts as a
    /// whole share, because nothing else limits it.
    pub fn count(
        &mut self,
        member: &mut ShareMember,
        part: u64,
        (large, whole): (bool, bool),
        now_ns: u64,
    ) {
        // SAFETY: both layouts are those of C.
        unsafe { aqm_share_count(self, member, part, large.into(), whole.into(), now_ns) };
    }

    /// Removes a member that has ended.
    pub fn ended(&mut self, member: &mut ShareMember) {
        // SAFETY: both layouts are those of C.
        unsafe { aqm_share_ended(self, member) };
    }
}
