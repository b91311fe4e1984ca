// A store under a prefix that notes the listeners which Gloo exchanges through it.
#ifndef WORKER_TRAINER_COMM_NOTING_STORE_H_
#define WORKER_TRAINER_COMM_NOTING_STORE_H_

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "worker/trainer/comm/connections.h"

namespace paceline {

// Thread-safe if `store` is.
class NotingStore : public c10d::PrefixStore {
 public:
  // `connections` must outlive this.
  NotingStore(std::string prefix, c10::intrusive_ptr<c10d::Store> store,
              OwnConnections& connections)
      : PrefixStore(std::move(prefix), std::move(store)), connections_(connections) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<NotingStore>(prefix_, store_->clone(), connections_);
  }

  using PrefixStore::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    connections_.NoteOwn(value);
    PrefixStore::set(key, value);
  }
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override {
    for (const std::vector<uint8_t>& value : values) connections_.NoteOwn(value);
    PrefixStore::multiSet(keys, values);
  }

  std::vector<uint8_t> get(const std::string& key) override {
    std::vector<uint8_t> value = PrefixStore::get(key);
    connections_.NoteMember(value);
    return value;
  }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    std::vector<std::vector<uint8_t>> values = PrefixStore::multiGet(keys);
    for (const std::vector<uint8_t>& value : values) connections_.NoteMember(value);
    return values;
  }

 private:
  OwnConnections& connections_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_NOTING_STORE_H_
