// What is stored of a node, and back: see records.h.
#ifndef CONTROLLER_RPC_NODE_RECORDS_H_
#define CONTROLLER_RPC_NODE_RECORDS_H_

#include "controller/core/node.h"
#include "controller/store/record.pb.h"

namespace paceline {

// Cluster::Restore completes it.
Node DecodeNode(const v1::NodeRecord& record);

}  // namespace paceline

#endif  // CONTROLLER_RPC_NODE_RECORDS_H_
