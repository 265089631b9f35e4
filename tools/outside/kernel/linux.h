/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * As much of the kernel as its queueing disciplines need, for a process of user
 * space that asks them for decisions. The disciplines themselves, and the headers
 * with their arithmetic, are the kernel's own files. Nothing here decides.
 *
 * Time, jiffies and random words are those of the event in hand. A packet is what
 * `struct sk_buff` keeps of it here. Netlink, locks and statistics for user space
 * do nothing.
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

/* Constants and structures that user space sees. */
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

/* The event in hand. */
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

/* A discipline that asks again for the same event gets another word: a step of
 * Knuth's generator, of which the upper bits are taken first. */
static inline u32 get_random_u32(void)
{
	u32 word = random_word;

	random_word = (word ^ (word >> 16)) * 2654435769U + 2891336453U;
	return word;
}

/* The word comes first, as in the kit, whatever is asked for beyond it. */
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

/* A timer: one, as each discipline has at most one. */
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

/* The same with nanoseconds. */
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

/* A packet, and the code point of its ECN field. */
struct sk_buff {
	struct sk_buff *next, *prev;
	u32 len, truesize, hash, priority;
	u32 id;
	u8 ecn;
	void *end;
	char cb[48] __attribute__((aligned(8)));
};

struct sk_buff_head {
	struct sk_buff *first;
};

static inline u32 skb_get_hash(struct sk_buff *skb)
{
	return skb->hash;
}

static inline bool is_skb_wmem(const struct sk_buff *skb)
{
	return false;
}

static inline void skb_mark_not_on_list(struct sk_buff *skb)
{
	skb->next = NULL;
}

static inline int skb_get_dsfield(struct sk_buff *skb)
{
	return skb->ecn;
}

/* RFC 3168: what is not capable of ECN cannot be marked. */
static inline int INET_ECN_set_ce(struct sk_buff *skb)
{
	if (!skb->ecn)
		return 0;
	skb->ecn = 3;
	return 1;
}

/* include/net/sch_generic.h and gen_stats.h */
enum qdisc_drop_reason {
	QDISC_DROP_UNSPEC,
	QDISC_DROP_OVERLIMIT,
	QDISC_DROP_CONGESTED,
};

struct qdisc_skb_head {
	struct sk_buff *head, *tail;
	u32 qlen;
};

struct net_device_ops;

struct net_device {
	u32 mtu;
	const struct net_device_ops *netdev_ops;
};

struct net_device_ops {
	int (*ndo_setup_tc)(struct net_device *dev, int type, void *data);
};

struct gnet_stats_queue {
	u32 qlen, backlog, drops, requeues, overlimits;
};

struct gnet_stats_basic_sync {
	u64 bytes, packets;
};

struct Qdisc_ops;
struct nlattr;
struct gnet_dump;
struct tcf_block;
struct tcf_proto;
struct netlink_ext_ack;

struct tcmsg {
	u32 tcm_handle, tcm_info;
};

struct Qdisc {
	const struct Qdisc_ops *ops;
	struct net_device *dev;
	u32 limit, flags, handle, parent;
	struct qdisc_skb_head q;
	struct sk_buff_head gso_skb;
	struct gnet_stats_queue qstats;
	struct gnet_stats_basic_sync bstats;
	void *private;
};

struct qdisc_walker {
	int stop, skip, count;
	int (*fn)(struct Qdisc *sch, unsigned long cl, struct qdisc_walker *w);
};

struct Qdisc_class_ops {
	int (*graft)(struct Qdisc *sch, unsigned long cl, struct Qdisc *child,
		     struct Qdisc **old, struct netlink_ext_ack *extack);
	struct Qdisc *(*leaf)(struct Qdisc *sch, unsigned long cl);
	unsigned long (*find)(struct Qdisc *sch, u32 classid);
	void (*walk)(struct Qdisc *sch, struct qdisc_walker *walker);
	struct tcf_block *(*tcf_block)(struct Qdisc *sch, unsigned long cl,
				       struct netlink_ext_ack *extack);
	unsigned long (*bind_tcf)(struct Qdisc *sch, unsigned long parent,
				  u32 classid);
	void (*unbind_tcf)(struct Qdisc *sch, unsigned long cl);
	int (*dump)(struct Qdisc *sch, unsigned long cl, struct sk_buff *skb,
		    struct tcmsg *tcm);
	int (*dump_stats)(struct Qdisc *sch, unsigned long cl,
			  struct gnet_dump *dump);
};

struct Qdisc_ops {
	const struct Qdisc_class_ops *cl_ops;
	char id[16];
	int priv_size;
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch,
		       struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	struct sk_buff *(*peek)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *opt,
		    struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
	int (*change)(struct Qdisc *sch, struct nlattr *opt,
		      struct netlink_ext_ack *extack);
	int (*dump)(struct Qdisc *sch, struct sk_buff *skb);
	int (*dump_stats)(struct Qdisc *sch, struct gnet_dump *dump);
	void *owner;
};

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define NET_XMIT_CN 2
#define __NET_XMIT_STOLEN 0x10000
#define __NET_XMIT_BYPASS 0x20000
#define TCQ_F_CAN_BYPASS 4
#define TCQ_F_DEQUEUE_DROPS 0x400
#define TCQ_F_OFFLOADED 0x200
#define TC_H_MAJ(handle) ((handle) & 0xffff0000U)
#define TC_H_MIN(handle) ((handle) & 0xffffU)

static inline void *qdisc_priv(struct Qdisc *sch)
{
	return sch->private;
}

static inline struct net_device *qdisc_dev(const struct Qdisc *sch)
{
	return sch->dev;
}

static inline u32 psched_mtu(const struct net_device *dev)
{
	return dev->mtu;
}

static inline u32 qdisc_qlen(const struct Qdisc *sch)
{
	return sch->q.qlen;
}

static inline u32 qdisc_pkt_len(const struct sk_buff *skb)
{
	return skb->len;
}

struct qdisc_skb_cb {
	u32 pkt_len;
	u16 pkt_segs;
	unsigned char data[32] __attribute__((aligned(8)));
};

static inline struct qdisc_skb_cb *qdisc_skb_cb(const struct sk_buff *skb)
{
	return (struct qdisc_skb_cb *)skb->cb;
}

#define qdisc_cb_private_validate(skb, size) ((void)(skb))
#define sch_tree_lock(sch) ((void)(sch))
#define sch_tree_unlock(sch) ((void)(sch))
#define qdisc_lock(sch) (sch)
#define qdisc_root_sleeping(sch) (sch)
#define tcf_set_qdisc_drop_reason(skb, reason) ((void)(skb))
#define qdisc_tree_reduce_backlog(sch, packets, bytes) ((void)(bytes))

/* Where packets go that are dropped. */
void drop_packet(struct sk_buff *skb);

static inline void qdisc_qstats_drop(struct Qdisc *sch)
{
	sch->qstats.drops++;
}

static inline void __qdisc_qstats_drop(struct Qdisc *sch, int count)
{
	sch->qstats.drops += count;
}

static inline void qdisc_qstats_overlimit(struct Qdisc *sch)
{
	sch->qstats.overlimits++;
}

static inline void qstats_backlog_sub(struct Qdisc *sch, u32 bytes)
{
	sch->qstats.backlog -= bytes;
}

static inline void qstats_backlog_add(struct Qdisc *sch, u32 bytes)
{
	sch->qstats.backlog += bytes;
}

static inline void qdisc_qstats_backlog_inc(struct Qdisc *sch,
					    const struct sk_buff *skb)
{
	sch->qstats.backlog += qdisc_pkt_len(skb);
}

static inline void qdisc_qstats_backlog_dec(struct Qdisc *sch,
					    const struct sk_buff *skb)
{
	sch->qstats.backlog -= qdisc_pkt_len(skb);
}

static inline void qdisc_qlen_inc(struct Qdisc *sch)
{
	sch->q.qlen++;
}

static inline void qdisc_qlen_dec(struct Qdisc *sch)
{
	sch->q.qlen--;
}

static inline void qdisc_bstats_update(struct Qdisc *sch,
				       const struct sk_buff *skb)
{
	sch->bstats.bytes += qdisc_pkt_len(skb);
	sch->bstats.packets++;
}

static inline int qdisc_enqueue_tail(struct sk_buff *skb, struct Qdisc *sch)
{
	skb->next = NULL;
	if (sch->q.tail)
		sch->q.tail->next = skb;
	else
		sch->q.head = skb;
	sch->q.tail = skb;
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	return NET_XMIT_SUCCESS;
}

static inline struct sk_buff *__qdisc_dequeue_head(struct qdisc_skb_head *q)
{
	struct sk_buff *skb = q->head;

	if (skb) {
		q->head = skb->next;
		q->qlen--;
		if (!q->head)
			q->tail = NULL;
		skb->next = NULL;
	}
	return skb;
}

static inline struct sk_buff *qdisc_dequeue_head(struct Qdisc *sch)
{
	struct sk_buff *skb = __qdisc_dequeue_head(&sch->q);

	if (skb) {
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_bstats_update(sch, skb);
	}
	return skb;
}

static inline void qdisc_dequeue_drop(struct Qdisc *sch, struct sk_buff *skb,
				      enum qdisc_drop_reason reason)
{
	drop_packet(skb);
}

static inline void __qdisc_drop(struct sk_buff *skb, struct sk_buff **to_free)
{
	drop_packet(skb);
}

static inline int qdisc_drop_reason(struct sk_buff *skb, struct Qdisc *sch,
				    struct sk_buff **to_free,
				    enum qdisc_drop_reason reason)
{
	drop_packet(skb);
	qdisc_qstats_drop(sch);
	return NET_XMIT_DROP;
}

static inline void rtnl_kfree_skbs(struct sk_buff *head, struct sk_buff *tail)
{
	while (head) {
		struct sk_buff *next = head->next;

		drop_packet(head);
		head = next;
	}
}

static inline void rtnl_qdisc_drop(struct sk_buff *skb, struct Qdisc *sch)
{
	skb->next = NULL;
	rtnl_kfree_skbs(skb, skb);
	qdisc_qstats_drop(sch);
}

static inline void qdisc_reset_queue(struct Qdisc *sch)
{
	rtnl_kfree_skbs(sch->q.head, sch->q.tail);
	memset(&sch->q, 0, sizeof(sch->q));
	sch->qstats.backlog = 0;
}

/* Nobody peeks, changes or dumps: the kernel's files still name these. */
static inline struct sk_buff *skb_peek(struct sk_buff_head *list)
{
	return list->first;
}

static inline void __skb_queue_head(struct sk_buff_head *list,
				    struct sk_buff *skb)
{
	list->first = skb;
}

static inline struct sk_buff *qdisc_peek_dequeued(struct Qdisc *sch)
{
	return NULL;
}

static inline struct sk_buff *qdisc_dequeue_internal(struct Qdisc *sch,
						     bool direct)
{
	return sch->ops->dequeue(sch);
}

static inline struct sk_buff *qdisc_dequeue_peeked(struct Qdisc *sch)
{
	return sch->ops->dequeue(sch);
}

static inline int qdisc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
				struct sk_buff **to_free)
{
	return sch->ops->enqueue(skb, sch, to_free);
}

#define net_xmit_drop_count(result) ((result) == NET_XMIT_DROP)
#define register_qdisc(ops) ((void)(ops), 0)
#define unregister_qdisc(ops) ((void)(ops))

struct nla_policy {
	int type, len;
	u32 bits;
	int strict_start_type;
};

struct nla_bitfield32 {
	u32 value, selector;
};

enum { NLA_U8, NLA_U32, NLA_BITFIELD32 };

#define NLA_POLICY_BITFIELD32(supported) \
	{ .type = NLA_BITFIELD32, .bits = supported }
#define nla_parse_nested_deprecated(tb, most, opt, policy, extack) \
	((void)(tb), (void)(policy), -EOPNOTSUPP)
#define nla_get_u8(attribute) ((u8)0)
#define nla_get_u32(attribute) ((u32)0)
#define nla_get_u32_default(attribute, otherwise) (otherwise)
#define nla_get_bitfield32(attribute) ((struct nla_bitfield32){ 0, 0 })
#define nla_data(attribute) ((void *)(attribute))
#define nla_put(skb, type, size, data) ((void)(data), 0)
#define nla_put_u8(skb, type, value) ((void)(value), 0)
#define nla_put_u32(skb, type, value) ((void)(value), 0)
#define nla_put_bitfield32(skb, type, value, selector) ((void)(value), 0)
#define nla_nest_start_noflag(skb, type) ((struct nlattr *)NULL)
#define nla_nest_end(skb, nest) 0
#define nla_nest_cancel(skb, nest) ((void)(nest))
#define gnet_stats_copy_app(dump, data, size) ((void)(data), 0)
#define gnet_stats_copy_queue(dump, cpu, data, length) ((void)(data), 0)
#define NL_SET_ERR_MSG(extack, text) ((void)(extack))
#define NL_SET_ERR_MSG_MOD(extack, text) ((void)(extack))
#define tcf_block_get(block, list, sch, extack) ((void)(extack), 0)
#define tcf_block_put(block) ((void)(block))

struct tcf_result {
	u32 classid;
};

#define tcf_classify_qdisc(skb, filter, result, compat) \
	((void)(filter), (result)->classid = 0, -1)

#endif
