// Prometheus' HTTP service discovery at /sd: the workers of the cluster.
#ifndef CONTROLLER_DISCOVERY_H_
#define CONTROLLER_DISCOVERY_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/event_loop.h"
#include "controller/core/cluster/cluster.h"

namespace paceline {

// Returns JSON: a list of targets with labels, for the nodes that have a metrics address.
std::string DescribeTargets(const Cluster& cluster);

// The present targets, for any thread.
class Discovery {
 public:
  // Both outlive this.
  Discovery(EventLoop* loop, const Cluster* cluster) : loop_(loop), cluster_(cluster) {}

  // On the loop, or before it runs.
  void Update() ABSL_LOCKS_EXCLUDED(mutex_);
  // Updates once after a burst of changes. On the loop.
  void UpdateSoon();

  // As DescribeTargets; no targets before the first update. Any thread.
  std::string targets() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  EventLoop* const loop_;
  const Cluster* const cluster_;
  bool is_old_ = false;  // An update has been posted. On the loop.

  mutable absl::Mutex mutex_;
  std::string targets_ ABSL_GUARDED_BY(mutex_) = "[]";
};

}  // namespace paceline

#endif  // CONTROLLER_DISCOVERY_H_
