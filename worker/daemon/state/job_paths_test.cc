#include "worker/daemon/state/job_paths.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace paceline {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;

// Strings that are not paths a node opens. The controller resolves resume_from into restore_from. A
// command's arguments are opened by its own user. Code is unpacked where the daemon decides.
// Trackers are the follower's, which runs for a user elsewhere.
const std::set<std::string> kNoPaths = {"paceline.v1.Code.sha256",
                                        "paceline.v1.Data.train_hash",
                                        "paceline.v1.JobSpec.name",
                                        "paceline.v1.JobSpec.command",
                                        "paceline.v1.JobSpec.description",
                                        "paceline.v1.JobSpec.queue",
                                        "paceline.v1.JobSpec.resume_from",
                                        "paceline.v1.PlacementPolicy.nodes",
                                        "paceline.v1.PlacementPolicy.same",
                                        "paceline.v1.PlacementPolicy.exclude_nodes",
                                        "paceline.v1.PlacementPolicy.tolerate",
                                        "paceline.v1.TensorBoardTracker.directory",
                                        "paceline.v1.MlflowTracker.uri",
                                        "paceline.v1.MlflowTracker.experiment",
                                        "paceline.v1.WandbTracker.directory",
                                        "paceline.v1.WandbTracker.project",
                                        "paceline.v1.WandbTracker.entity"};

// Sets each string of `message` to its own name; returns the names that are not in kNoPaths.
std::set<std::string> FillTexts(Message* message) {
  std::set<std::string> filled;
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (field->is_map()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_repeated()) {
      // A oneof can hold one member only: choose the model that has a path.
      if (field->containing_oneof() != nullptr && field->name() != "torchscript") continue;
      filled.merge(FillTexts(reflection.MutableMessage(message, field)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
               kNoPaths.count(field->full_name()) == 0) {
      EXPECT_FALSE(field->is_repeated()) << field->full_name() << " is not in PathsOf";
      if (field->is_repeated()) continue;
      reflection.SetString(message, field, field->full_name());
      filled.insert(field->full_name());
    }
  }
  return filled;
}

TEST(JobPathsTest, EveryTextOfASpecIsAPathOrKnownToBeNone) {
  v1::TrainerPlan plan;
  const std::set<std::string> texts = FillTexts(plan.mutable_spec());
  EXPECT_EQ(texts.size(), 8U);
  for (const std::string& text : texts) {
    EXPECT_THAT(PathsOf(plan), Contains(Field(&NamedPath::path, text)));
  }
}

TEST(JobPathsTest, EachFileOfAListIsAPath) {
  v1::TrainerPlan plan;
  plan.mutable_spec()->mutable_data()->add_sources()->set_path("/a");
  plan.mutable_spec()->mutable_data()->add_sources()->set_path("/b");
  ASSERT_EQ(PathsOf(plan).size(), 2U);
  EXPECT_EQ(PathsOf(plan)[1].field, "data.train[1].path");
  EXPECT_EQ(PathsOf(plan)[1].path, "/b");
}

TEST(JobPathsTest, ACompiledModelHasItsWeightsBesideIt) {
  v1::TrainerPlan plan;
  plan.mutable_spec()->mutable_model()->mutable_compiled()->set_file("/m/step.pt2");
  ASSERT_EQ(PathsOf(plan).size(), 2U);
  EXPECT_EQ(PathsOf(plan)[0].path, "/m/step.pt2");
  EXPECT_EQ(PathsOf(plan)[1].field, "model.file");
  EXPECT_EQ(PathsOf(plan)[1].path, "/m/step.safetensors");
}

TEST(JobPathsTest, ObjectsOfStoresAreNoPaths) {
  v1::TrainerPlan plan;
  plan.mutable_spec()->mutable_data()->add_sources()->set_path("s3://b/k");
  plan.mutable_spec()->mutable_data()->add_sources()->set_path("/b");
  plan.mutable_spec()->mutable_data()->set_eval("gs://b/k");
  ASSERT_EQ(PathsOf(plan).size(), 1U);
  EXPECT_EQ(PathsOf(plan)[0].field, "data.train[1].path");
}

TEST(JobPathsTest, OnlyDataIsReadFromStores) {
  v1::TrainerPlan plan;
  plan.set_restore_from("s3://b/k");
  ASSERT_EQ(PathsOf(plan).size(), 1U);
  EXPECT_EQ(PathsOf(plan)[0].field, "resume_from");
}

TEST(JobPathsTest, OnlyWhatIsGivenIsNamed) {
  v1::TrainerPlan plan;
  EXPECT_THAT(PathsOf(plan), IsEmpty());
  plan.set_restore_from("/c/step-1");
  ASSERT_EQ(PathsOf(plan).size(), 1U);
  EXPECT_EQ(PathsOf(plan)[0].field, "resume_from");
  EXPECT_EQ(PathsOf(plan)[0].path, "/c/step-1");
}

}  // namespace
}  // namespace paceline
