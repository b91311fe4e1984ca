// Tells code of a library whether it runs in a child that its process has forked: in a Python
// process, a worker of a DataLoader. Such a child has the memory and the files of its parent but
// none of its threads, and must leave alone what they share.
#ifndef COMMON_FORKED_CHILD_H_
#define COMMON_FORKED_CHILD_H_

namespace paceline {

// From now on, IsForkedChild() is true in children of this process, and in theirs. Those that
// become another program know nothing of it. Repeated calls do nothing. Any thread.
void WatchForks();

// Any thread. Costs one read.
bool IsForkedChild();

}  // namespace paceline

#endif  // COMMON_FORKED_CHILD_H_
