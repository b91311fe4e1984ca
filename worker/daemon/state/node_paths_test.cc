#include "worker/daemon/state/node_paths.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(NodePathsTest, NameOfATrainerIsReadBack) {
  const TrainerId id{JobId("job-0123456789ab"), Generation(2), Rank(31)};
  EXPECT_EQ(TrainerName(id), "job-0123456789ab.2.31");
  ASSERT_TRUE(ParseTrainerName("job-0123456789ab.2.31").has_value());
  EXPECT_EQ(*ParseTrainerName("job-0123456789ab.2.31"), id);
}

TEST(NodePathsTest, OtherNamesAreNoTrainers) {
  for (const char* name : {"", "job", "job.1", "job.1.0.ring", "job.0.0", "job.1.-1", "../x.1.0",
                           "job.01.0", "Job.1.0", ".1.0"}) {
    EXPECT_FALSE(ParseTrainerName(name).has_value()) << name;
  }
}

TEST(NodePathsTest, IdsThatWouldLeaveTheFolderAreInvalid) {
  EXPECT_FALSE(IsValid({JobId("../../etc"), Generation(1), Rank(0)}));
  EXPECT_FALSE(IsValid({JobId("a/b"), Generation(1), Rank(0)}));
  EXPECT_TRUE(IsValid({JobId("job-1"), Generation(1), Rank(0)}));
}

TEST(NodePathsTest, WhatATrainerWritesLiesInAFolderOfItsName) {
  const NodePaths paths{"/s", "/r"};
  const TrainerId id{JobId("job-1"), Generation(2), Rank(3)};
  EXPECT_EQ(paths.OwnDir(id), "/s/trainers/job-1.2.3/job-1.2.3");
  EXPECT_EQ(paths.LogDir(id), paths.OwnDir(id) + "/log");
  // The daemon writes the marks, so they are not in the trainer's own dir.
  EXPECT_EQ(paths.LogMarks(id), "/s/trainers/job-1.2.3/marks");
}

}  // namespace
}  // namespace paceline
