// StateStore in memory: for tests and simulations.
#ifndef CONTROLLER_STORE_TESTING_MEMORY_STORE_H_
#define CONTROLLER_STORE_TESTING_MEMORY_STORE_H_

#include <map>
#include <string>

#include "controller/store/state_store.h"

namespace paceline {

class MemoryStore : public StateStore {
 public:
  absl::Status Commit(const WriteBatch& batch) override {
    for (const auto& [key, value] : batch.puts) entries_[key] = value;
    for (const std::string& key : batch.deletes) entries_.erase(key);
    return absl::OkStatus();
  }

  absl::StatusOr<std::map<std::string, std::string>> Load(const std::string& prefix) override {
    std::map<std::string, std::string> found;
    for (auto i = entries_.lower_bound(prefix);
         i != entries_.end() && i->first.compare(0, prefix.size(), prefix) == 0; ++i) {
      found.insert(*i);
    }
    return found;
  }

  int64_t SizeBytes() override {
    int64_t size = 0;
    for (const auto& [key, value] : entries_) size += key.size() + value.size();
    return size;
  }

 private:
  std::map<std::string, std::string> entries_;
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_TESTING_MEMORY_STORE_H_
