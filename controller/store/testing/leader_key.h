// Gives a test the leadership without an election: the key of a leader, held by no lease.
#ifndef CONTROLLER_STORE_TESTING_LEADER_KEY_H_
#define CONTROLLER_STORE_TESTING_LEADER_KEY_H_

#include <cstdint>
#include <string>

#include "controller/store/etcd_client.h"
#include "controller/store/etcd_store.h"

namespace paceline {

// Ends the previous term, if any, and returns the new one.
inline int64_t TakeLeadership(EtcdClient& client, const std::string& prefix) {
  const std::string key = EtcdLeaderKey(prefix);
  etcdserverpb::TxnRequest remove;
  remove.add_success()->mutable_request_delete_range()->set_key(key);
  etcdserverpb::TxnRequest put;
  put.add_success()->mutable_request_put()->set_key(key);
  put.mutable_success(0)->mutable_request_put()->set_value("test:1");
  return client.Txn(remove, {}).ok() ? client.Txn(put, {}).value().header().revision() : 0;
}

}  // namespace paceline

#endif  // CONTROLLER_STORE_TESTING_LEADER_KEY_H_
