// Code that travels with jobs, from a folder that no node sees, under real daemons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

TestNetwork Commands() {
  TestNetwork network;
  network.worker_flags = [](int) {
    return std::vector<std::string>{"--plaintext", "--commands", "on"};
  };
  return network;
}

class ShipTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << text;
  }
  // Submits a job of that script with the folder and returns its id. `more`: keys of the job file.
  std::string Submit(const std::string& script, const std::string& more) const {
    Write("main.sh", script);
    Write("job.yaml", absl::StrCat("name: own\ncommand: [bash, main.sh]\n", more));
    std::vector<std::string> command = {Program("paceline"), "submit",  "--ship",
                                        "--parsable",        "--quiet", folder_ + "/job.yaml"};
    for (const std::string& flag : cluster_.ClientFlags()) command.push_back(flag);
    const Finished finished = RunToEnd(command);
    EXPECT_EQ(finished.exit_code, 0) << finished.output;
    return std::string(absl::StripSuffix(finished.output, "\n"));
  }
  // Folders of code on the node, complete or not, except those that are being removed.
  std::vector<std::string> CodeOn(int w) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(cluster_.WorkerFile(w, "state/trainers"))) {
      const std::string name = entry.path().filename().string();
      if (absl::StrContains(name, ".code") && !absl::StrContains(name, ".removed-")) {
        names.push_back(name);
      }
    }
    return names;
  }

  TestCluster cluster_{2, 1, Commands()};
  const std::string folder_ = NewFolder();
};

TEST_F(ShipTest, NodesRunWhatWasSentWhenTheFolderIsGoneAndTheControllerIsAnother) {
  Write("lib/words.txt", "from afar");
  Write("run me", "#!/bin/bash\ncat lib/words.txt\n");
  fs::permissions(folder_ + "/run me", fs::perms::owner_all);
  fs::create_symlink("run me", folder_ + "/link");
  cluster_.KillWorker(0);
  cluster_.KillWorker(1);
  const std::string id = Submit("echo $RANK; ./link; echo; echo mine > written; pwd", "ranks: 2\n");
  fs::remove_all(folder_);
  cluster_.KillController();
  cluster_.StartController();
  cluster_.StartWorker(0);
  cluster_.StartWorker(1);
  const v1::Job job = cluster_.WaitForEnd(id);
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(job.spec().code().files(), 5);
  for (int rank = 0; rank < 2; ++rank) {
    const int w = job.ranks(rank).node() == "w0" ? 0 : 1;
    const std::string code = cluster_.WorkerFile(w, absl::StrCat("state/trainers/", id, ".code"));
    EXPECT_EQ(cluster_.Log(id, rank),
              absl::StrCat(rank, "\nfrom afar\n", fs::canonical(code).string(), "\n"));
    EXPECT_EQ(ReadFile(code + "/written"), "mine\n");
  }
}

TEST_F(ShipTest, ARestartFindsItsFolder) {
  const std::string id =
      Submit("echo start $TORCHELASTIC_RESTART_COUNT; test $TORCHELASTIC_RESTART_COUNT = 1",
             "ranks: 1\nmax_restarts: 1\n");
  const v1::Job job = cluster_.WaitForEnd(id);
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(cluster_.Log(id, 0), "start 1\n");
}

TEST_F(ShipTest, ADaemonThatIsKilledMeanwhileLeavesNothingAndStartsAgain) {
  std::mt19937_64 random(1);
  std::string data(24 << 20, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  Write("data", data);
  const std::string id = Submit("wc -c < data", "ranks: 2\n");
  cluster_.WaitUntil(id, [](const v1::Job& job) { return job.ranks_size() == 2; });
  for (int w = 0; w < 2; ++w) {
    cluster_.KillWorker(w);
    cluster_.StartWorker(w);
  }
  const v1::Job job = cluster_.WaitForEnd(id);
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  for (int w = 0; w < 2; ++w) EXPECT_THAT(CodeOn(w), ElementsAre(id + ".code"));
  EXPECT_EQ(cluster_.Log(id, 1), absl::StrCat(data.size(), "\n"));
}

TEST_F(ShipTest, WhatAnEarlierDaemonLeftIsNotInTheWay) {
  cluster_.KillWorker(0);
  cluster_.KillWorker(1);
  const std::string id = Submit("cat main.sh", "ranks: 2\n");
  for (int w = 0; w < 2; ++w) {
    const std::string code = cluster_.WorkerFile(w, absl::StrCat("state/trainers/", id, ".code"));
    for (const std::string& left : {code, code + ".new"}) {
      fs::create_directories(left);
      std::ofstream(left + "/main.sh") << "echo old";
    }
    cluster_.StartWorker(w);
  }
  const v1::Job job = cluster_.WaitForEnd(id);
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(cluster_.Log(id, 0), "cat main.sh");
}

}  // namespace
}  // namespace paceline
