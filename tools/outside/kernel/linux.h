/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of the kernel that its queueing disciplines need, for a user-space
 * process that asks them for decisions. The disciplines themselves, and the
 * headers with their arithmetic, are the kernel's own files. Nothing here makes
 * decisions.
 *
 * Time, jiffies and random words are those of the current event. A packet is
 * reduced to the fields of `struct sk_buff` here. Netlink, locks and statistics
 * for user space do nothing.
 */
#ifndef OUTSIDE_LINUX_H
#define OUTSIDE_LINUX_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef int32_t __s32;
typedef int64_t __s64;
typedef s64 ktime_t;
typedef u64 psched_time_t;

#define U64_MAX UINT64_MAX
#define BITS_PER_BYTE 8
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L
#define USEC_PER_MSEC 1000L
/* CONFIG_HZ of Debian's kernels. */
#define HZ 250

#define __init
#define __exit
#define __rcu
#define __read_mostly
#define THIS_MODULE NULL
#define MODULE_ALIAS_NET_SCH(name)
#define MODULE_DESCRIPTION(text)
#define MODULE_VERSION(text)
#define MODULE_AUTHOR(text)
#define MODULE_LICENSE(text)
#define module_init(function) int (*module_begin)(void) = function;
#define module_exit(function) void (*module_end)(void) = function;
#define EXPORT_SYMBOL_GPL(name)
#define fallthrough __attribute__((__fallthrough__))
#define likely(x) (x)
#define unlikely(x) (x)
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define typecheck(type, x) ((void)(type)(x), 1)
#define BUG() abort()
#define prefetch(pointer) ((void)(pointer))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp_t(type, x, least, most) min_t(type, max_t(type, x, least), most)
#define do_div(x, by) ((x) /= (by))
#define DIV_ROUND_CLOSEST(x, by) (((x) + (by) / 2) / (by))
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer) - offsetof(type, member)))
#define rcu_dereference_bh(pointer) (pointer)
#define kvzalloc_objs(type, count) ((type *)calloc(count, sizeof(type)))
#define kvcalloc(count, size, flags) calloc(count, size)
#define kvfree(pointer) free(pointer)
#define rcu_read_lock()
#define rcu_read_unlock()
typedef struct Qdisc spinlock_t;
#define spin_lock(lock) ((void)(lock))
#define spin_unlock(lock) ((void)(lock))

/* The kernel's constants and structures for user space. */
#include "uapi/linux/pkt_sched.h"

/* lib/math/reciprocal_div.c and include/linux/math.h */
static inline u32 reciprocal_scale(u32 value, u32 end)
{
	return (u32)(((u64)value * end) >> 32);
}

struct reciprocal_value {
	u32 m;
	u8 sh1, sh2;
};

static inline int fls(u32 x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline struct reciprocal_value reciprocal_value(u32 d)
{
	struct reciprocal_value value;
	int l = fls(d - 1);
	u64 m = ((1ULL << 32) * ((1ULL << l) - d)) / d + 1;

	value.m = (u32)m;
	value.sh1 = min(l, 1);
	value.sh2 = max(l - 1, 0);
	return value;
}

static inline u32 reciprocal_divide(u32 a, struct reciprocal_value by)
{
	u32 t = (u32)(((u64)a * by.m) >> 32);

	return (t + ((a - t) >> by.sh1)) >> by.sh2;
}

static inline u64 div_u64(u64 x, u32 by)
{
	return x / by;
}

/* The current event. */
extern u64 now_ns;
extern u32 random_word;

static inline u64 ktime_get_ns(void)
{
	return now_ns;
}

static inline ktime_t ktime_get(void)
{
	return (ktime_t)now_ns;
}

static inline s64 ktime_us_delta(ktime_t later, ktime_t earlier)
{
	return (later - earlier) / 1000;
}

/* Returns another word each time a discipline asks for the same event.
 * Consecutive words must be practically independent, because the kit compares
 * one word with the product of two probabilities. The steps are the finalizer
 * of MurmurHash3. */
static inline u32 get_random_u32(void)
{
	u32 word = random_word;
	u32 next = word + 0x9e3779b9U;

	next = (next ^ (next >> 16)) * 0x85ebca6bU;
	next = (next ^ (next >> 13)) * 0xc2b2ae35U;
	random_word = next ^ (next >> 16);
	return word;
}

/* The word is the most significant half of a number, as in the kit. The rest is
 * 0. */
static inline void get_random_bytes(void *bytes, size_t size)
{
	u64 word = (u64)get_random_u32() << 32;

	memcpy(bytes, &word, min(size, sizeof(word)));
}

#define jiffies (now_ns / (NSEC_PER_SEC / HZ))

static inline unsigned long usecs_to_jiffies(u32 us)
{
	return (us + 1000000 / HZ - 1) / (1000000 / HZ);
}

static inline u32 jiffies_to_usecs(unsigned long ticks)
{
	return (u32)(ticks * (1000000 / HZ));
}

/* include/net/pkt_sched.h */
#define PSCHED_SHIFT 6
#define PSCHED_TICKS2NS(x) ((s64)(x) << PSCHED_SHIFT)
#define PSCHED_NS2TICKS(x) ((x) >> PSCHED_SHIFT)
#define PSCHED_TICKS_PER_SEC PSCHED_NS2TICKS(NSEC_PER_SEC)

static inline psched_time_t psched_get_time(void)
{
	return PSCHED_NS2TICKS(ktime_get_ns());
}

/* The only timer: each discipline has at most one. */
struct timer_list {
	void (*function)(struct timer_list *timer);
	u64 due;
};

extern struct timer_list *timer;

#define timer_container_of(variable, pointer, member) \
	container_of(pointer, __typeof__(*variable), member)

static inline void timer_setup(struct timer_list *t,
			       void (*function)(struct timer_list *),
			       unsigned int flags)
{
	t->function = function;
	timer = t;
}

static inline void mod_timer(struct timer_list *t, u64 due)
{
	t->due = due;
}

static inline void timer_delete(struct timer_list *t)
{
	t->due = 0;
}

#define timer_delete_sync timer_delete

/* A timer in nanoseconds. */
enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };

struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	u64 due_ns;
};

extern struct hrtimer *hrtimer;

#define CLOCK_MONOTONIC 1
#define HRTIMER_MODE_ABS_PINNED_SOFT 0
#define ktime_add_ns(time, ns) ((time) + (ns))

static inline void
hrtimer_setup(struct hrtimer *t,
	      enum hrtimer_restart (*function)(struct hrtimer *), int clock,
	      int mode)
{
	t->function = function;
	hrtimer = t;
}

static inline void hrtimer_set_expires(struct hrtimer *t, ktime_t due)
{
	t->due_ns = (u64)due;
}

#define hrtimer_start(t, due, mode) hrtimer_set_expires(t, due)
#define hrtimer_cancel(t) hrtimer_set_expires(t, 0)

/* include/linux/list.h */
struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline int list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline void list_add_tail(struct list_head *entry,
				 struct list_head *list)
{
	entry->prev = list->prev;
	entry->next = list;
	list->prev->next = entry;
	list->prev = entry;
}

static inline void list_del_init(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	INIT_LIST_HEAD(entry);
}

static inline void list_move_tail(struct list_head *entry,
				  struct list_head *list)
{
	list_del_init(entry);
	list_add_tail(entry, list);
}

#define list_for_each(at, list) \
	for (at = (list)->next; at != (list); at = at->next)
#define list_first_entry(list, type, member) \
	container_of((list)->next, type, member)

#endif
