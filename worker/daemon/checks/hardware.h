// Finds out the hardware of this node.
#ifndef WORKER_DAEMON_CHECKS_HARDWARE_H_
#define WORKER_DAEMON_CHECKS_HARDWARE_H_

#include "proto/node.pb.h"

namespace paceline {

// GPUs are found through NVIDIA's management library, loaded at run time. Without the library or a
// driver, the node has no GPUs.
v1::Hardware ReadHardware();

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKS_HARDWARE_H_
