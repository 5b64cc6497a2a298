/* Intrusive doubly linked lists: the node is inside the item, so that nothing is allocated. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A node, or the head of a list. The head of an empty list points to itself. */
struct list {
    struct list *next;
    struct list *prev;
};

#define container_of(pointer, type, member)                                                        \
    ((type *) (((char *) (pointer)) - offsetof(type, member)))

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}

static inline bool list_is_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push_front(struct list *head, struct list *item)
{
    item->next = head->next;
    item->prev = head;
    head->next->prev = item;
    head->next = item;
}

static inline void list_push_back(struct list *head, struct list *item)
{
    item->next = head;
    item->prev = head->prev;
    head->prev->next = item;
    head->prev = item;
}

/* Removes an item; it becomes a list of its own, so that a second removal is harmless. */
static inline void list_remove(struct list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    item->next = item->prev = item;
}

/* Moves all items of `from`, which is empty afterwards, to the end of `head`. */
static inline void list_splice_back(struct list *head, struct list *from)
{
    if (from->next != from) {
        head->prev->next = from->next;
        from->next->prev = head->prev;
        from->prev->next = head;
        head->prev = from->prev;
        list_init(from);
    }
}

/* Removes and gives the first item, or NULL. */
static inline struct list *list_pop_front(struct list *head)
{
    struct list *item = head->next;
    if (item == head) {
        return NULL;
    }
    list_remove(item);
    return item;
}

/* Iterates over a list; the current item may be removed. */
#define list_each(item, head)                                                                      \
    for (struct list *item = (head)->next, *item##_next = item->next; item != (head);              \
         item = item##_next, item##_next = item->next)

#endif
