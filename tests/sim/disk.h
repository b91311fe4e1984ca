// The file system that all nodes share: the checkpoint directories of the jobs.
//
// Thread-compatible.
#ifndef TESTS_SIM_DISK_H_
#define TESTS_SIM_DISK_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/checkpoint_key.h"
#include "controller/core/checkpoint/checkpoint_tasks.h"

namespace paceline::sim {

class Disk {
 public:
  struct Directory {
    CheckpointKey key;
    std::set<int> shards;  // Ranks whose shard is durable.
    int ranks = 0;         // As in the manifest; 0: no manifest.
    bool damaged = false;  // A shard cannot be read.
    bool complete() const { return ranks > 0; }
  };

  void AddShard(const std::string& directory, const CheckpointKey& key, int rank);
  // Adds a manifest. False: a shard is missing, and no manifest is added.
  bool AddManifest(const std::string& directory, int ranks);
  bool HasShards(const std::string& directory, int ranks) const;
  void Damage(const std::string& directory);
  // Null if there is no such directory.
  const Directory* Find(const std::string& directory) const;
  // Names of the complete checkpoints in a job's directory.
  std::vector<std::string> Complete(const std::string& job_directory) const;

  // Does what worker/daemon/checkpoints/run_checkpoint_task.h does.
  CheckpointTaskResult Run(const CheckpointTask& task);

 private:
  std::vector<FoundCheckpoint> Settle(const CheckpointTask& task);

  std::map<std::string, Directory> directories_;  // By path: <job's directory>/<name>.
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_DISK_H_
