/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's timer wheel: nodes by the tick for which they wait. Insertion,
 * removal and finding the first node take constant time.
 *
 * A node is never returned before its time. A node that waits beyond the range
 * of the wheel is returned at its end and inserted again. If the host asks
 * late, it gets the nodes of all past ticks in order of time.
 */
#ifndef AQM_ENGINE_WHEEL_H
#define AQM_ENGINE_WHEEL_H

#include "engine.h"

/* Returns the index of the lowest set bit of a 16-bit word that is not 0. The
 * isolated bit is a power of two. Its product with a de Bruijn number has a
 * unique index in its upper bits (Leiserson, Prokop and Randall 1998). */
AQM_FN u32 engine_lowest16(u32 word)
{
	u32 alone = word & (0 - word);

	return (u32)(0xcd7ea84fb6935210ULL >> ((alone * 0x9af >> 10) & 60)) &
	       15;
}

/* Returns the index of the lowest set bit of a 64-bit word. */
AQM_FN u64 engine_lowest(u64 word)
{
	u32 at = 0;

	if (!(u32)word) {
		word >>= 32;
		at = 32;
	}
	if (!(word & 0xffff)) {
		word >>= 16;
		at += 16;
	}
	return at + engine_lowest16((u32)word & 0xffff);
}

/* Removes a node from the wheel, if it is in it. */
AQM_FN int engine_wheel_remove(struct engine *e, u32 id)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_wheel *w = &e->wheel;
	struct engine_node *next, *prev;
	u32 place;

	if (!n || !n->wheel)
		return 0;
	place = AQM_MASKED(n->wheel - 1, ENGINE_TICKS - 1);
	n->wheel = 0;
	if (n->wheel_next != id) {
		next = engine_node(e, n->wheel_next);
		prev = engine_node(e, n->wheel_prev);
		if (next)
			next->wheel_prev = n->wheel_prev;
		if (prev)
			prev->wheel_next = n->wheel_next;
		if (w->bucket[place] == id)
			w->bucket[place] = n->wheel_next;
		return 1;
	}
	/* `due` may be too early now, which only costs a lookup. */
	w->bucket[place] = 0;
	w->low[place >> 6] &= ~(1ULL << (place & 63));
	if (w->low[place >> 6])
		return 1;
	w->middle[place >> 12] &= ~(1ULL << ((place >> 6) & 63));
	if (!w->middle[place >> 12])
		w->top &= ~(1ULL << (place >> 12));
	return 1;
}

/* Makes a node wait until `at_ns`. Cancels any other wait of it. */
AQM_WHOLE_FN int engine_wheel_put(struct engine *e AQM_NONNULL, u32 id,
				  u64 at_ns)
{
	struct engine_node *n = engine_node(e, id);
	u64 tick = (at_ns >> ENGINE_TICK_SHIFT) + 1;
	struct engine_wheel *w = &e->wheel;
	struct engine_node *head, *last;
	u32 place;

	engine_wheel_remove(e, id);
	if (!n)
		return 0;
	if (tick < w->tick)
		tick = w->tick;
	if (tick > w->tick + ENGINE_TICKS - 1)
		tick = w->tick + ENGINE_TICKS - 1;
	if (tick < w->due)
		w->due = tick;
	place = AQM_MASKED((u32)tick, ENGINE_TICKS - 1);
	n->wheel = place + 1;
	n->wheel_next = id;
	n->wheel_prev = id;
	head = engine_node(e, w->bucket[place]);
	if (head) {
		last = engine_node(e, head->wheel_prev);
		n->wheel_next = w->bucket[place];
		n->wheel_prev = head->wheel_prev;
		if (last)
			last->wheel_next = id;
		head->wheel_prev = id;
		return 0;
	}
	w->bucket[place] = id;
	w->low[place >> 6] |= 1ULL << (place & 63);
	w->middle[place >> 12] |= 1ULL << ((place >> 6) & 63);
	w->top |= 1ULL << (place >> 12);
	return 0;
}

/*
 * Moves a node that was just inserted before another of the same tick. By
 * default it would be returned last of its tick.
 */
AQM_FN int engine_wheel_before(struct engine *e, u32 id, u32 other)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_node *o = engine_node(e, other);
	struct engine_node *next, *prev;
	u32 place;

	if (!n || !o || id == other || !n->wheel || n->wheel != o->wheel)
		return 0;
	next = engine_node(e, n->wheel_next);
	prev = engine_node(e, n->wheel_prev);
	if (next)
		next->wheel_prev = n->wheel_prev;
	if (prev)
		prev->wheel_next = n->wheel_next;
	prev = engine_node(e, o->wheel_prev);
	n->wheel_next = other;
	n->wheel_prev = o->wheel_prev;
	if (prev)
		prev->wheel_next = id;
	o->wheel_prev = id;
	place = AQM_MASKED(n->wheel - 1, ENGINE_TICKS - 1);
	if (e->wheel.bucket[place] == other)
		e->wheel.bucket[place] = id;
	return 1;
}

/* Returns the bits of a word above `bit`. */
AQM_FN u64 engine_above(u64 word, u32 bit)
{
	return word & (~1ULL << (bit & 63));
}

/* Returns the bucket of the first tick with nodes, starting at the current
 * tick, or ENGINE_TICKS. */
AQM_FN u32 engine_wheel_first(struct engine *e AQM_NONNULL)
{
	struct engine_wheel *w = &e->wheel;
	u32 from = AQM_MASKED((u32)w->tick, ENGINE_TICKS - 1);
	u32 high = from >> 12, middle = from >> 6, at;
	u64 word;

	word = w->low[middle] >> (from & 63);
	if (word)
		return (middle << 6) + (from & 63) + (u32)engine_lowest(word);
	word = engine_above(w->middle[high], middle & 63);
	if (word) {
		at = high << 6 | AQM_MASKED((u32)engine_lowest(word), 63);
		return at << 6 | AQM_MASKED((u32)engine_lowest(w->low[at]), 63);
	}
	/* Then the other parts of the wheel, and last the part that wraps
	 * around. */
	word = engine_above(w->top, high);
	if (!word)
		word = w->top;
	if (!word)
		return ENGINE_TICKS;
	high = AQM_MASKED((u32)engine_lowest(word), 63);
	at = high << 6 | AQM_MASKED((u32)engine_lowest(w->middle[high]), 63);
	return at << 6 | AQM_MASKED((u32)engine_lowest(w->low[at]), 63);
}

/* Removes and returns the first due node, or 0. In that case `due` is when the
 * next one will be due. */
AQM_FN u32 engine_wheel_due(struct engine *e AQM_NONNULL, u64 now_ns)
{
	u64 now = now_ns >> ENGINE_TICK_SHIFT;
	struct engine_wheel *w = &e->wheel;
	u32 place = engine_wheel_first(e);
	u64 tick;
	u32 id;

	if (place >= ENGINE_TICKS) {
		w->tick = now;
		w->due = ~0ULL;
		return 0;
	}
	tick = w->tick + ((place - (u32)w->tick) & (ENGINE_TICKS - 1));
	w->due = tick;
	if (tick > now) {
		if (now > w->tick)
			w->tick = now;
		return 0;
	}
	w->tick = tick;
	id = w->bucket[AQM_MASKED(place, ENGINE_TICKS - 1)];
	engine_wheel_remove(e, id);
	return id;
}

#endif
