// What the nodes of a test say about themselves.
#ifndef CONTROLLER_CORE_TESTING_NODE_FACTS_H_
#define CONTROLLER_CORE_TESTING_NODE_FACTS_H_

#include "controller/core/node/node.h"

namespace paceline {

inline NodeFacts Facts(const char* name, int slots = 1, const char* uid = "uid") {
  NodeFacts facts;
  facts.name = NodeName(name);
  facts.uid = uid;
  facts.slots = slots;
  return facts;
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_NODE_FACTS_H_
