// What this node is made of.
#ifndef WORKER_DAEMON_CHECKS_HARDWARE_H_
#define WORKER_DAEMON_CHECKS_HARDWARE_H_

#include "proto/node.pb.h"

namespace paceline {

// GPUs are found through NVIDIA's management library, which is loaded if it is there; without
// it, or without a driver, the node has none.
v1::Hardware ReadHardware();

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKS_HARDWARE_H_
