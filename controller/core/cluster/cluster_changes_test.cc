// Changes of a job while it trains: its plan, profiles, and labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/cluster/cluster.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ClusterChangesTest : public ::testing::Test {
 protected:
  // A job of two ranks is placed on a and b.
  ClusterChangesTest() {
    for (const char* name : {"a", "b"}) cluster_.Step(NodeConnected{Facts(name, 1), {}}, At(0));
    cluster_.Step(JobSubmitted{PlayedRequest()}, At(1));
  }

  const Job& job() { return cluster_.jobs().at(id_); }

  const JobId id_ = PlayedRequest().id;
  Cluster cluster_{Cluster::Options()};
};

TEST_F(ClusterChangesTest, LadderAndProfileAreStoredBeforeTheNodesAreTold) {
  Actions actions =
      cluster_.Step(PlanChanged{id_, {{}, "wider", {{4, LadderScope::kAll, 0}}}}, At(2));
  EXPECT_THAT(actions.store_jobs, ElementsAre(id_));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_EQ(job().plan.version, PlanVersion(2));
  EXPECT_EQ(job().plan.strategy, "wider");
  EXPECT_EQ(job().plan.ladder.front().period, 4);
  JobProfile profile;
  profile.id = 4;
  actions = cluster_.Step(ProfileOrdered{id_, profile}, At(3));
  EXPECT_THAT(actions.store_jobs, ElementsAre(id_));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_EQ(job().profile->id, 4);
}

TEST_F(ClusterChangesTest, LabelsAreStoredAndShownAndNoNodeIsTold) {
  const LabelsChanged event{id_, "other spec", {{"team", "vision"}}, "for ann"};
  const Actions actions = cluster_.Step(event, At(2));
  EXPECT_THAT(actions.store_jobs, ElementsAre(id_));
  EXPECT_THAT(actions.changed_jobs, ElementsAre(id_));
  EXPECT_THAT(actions.send_plans, IsEmpty());
  EXPECT_EQ(job().request.spec, "other spec");
  EXPECT_EQ(job().request.labels, event.labels);
  EXPECT_EQ(job().request.description, "for ann");
  EXPECT_THAT(cluster_.Step(LabelsChanged{JobId("job-9"), "", {}, ""}, At(3)).store_jobs,
              IsEmpty());
}

}  // namespace
}  // namespace paceline
