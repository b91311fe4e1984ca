#include "worker/trainer/checkpoint/weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/export/testing/checkpoint_writer.h"
#include "common/safetensors/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An embedding of 3 x 2, a norm and a counter; also a head, unless it is tied.
class SmallModel : public Model {
 public:
  explicit SmallModel(bool tied) : Model(at::kCPU) {
    AddParameter("model.embed_tokens.weight", at::zeros({3, 2}));
    AddParameter("model.norm.weight", at::zeros({2}));
    if (!tied) AddParameter("lm_head.weight", at::zeros({3, 2}));
    AddBuffer("seen", at::zeros({}, at::kLong));
  }

  at::Tensor Loss(const Batch&) override { return {}; }
  Score Evaluate(const Batch&) override { return {}; }

  std::vector<float> Values(size_t parameter) const {
    const at::Tensor values = parameters()[parameter].tensor.detach();
    return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
  }
};

// The last row of SmallModel's embedding, and the whole norm.
class HalfModel : public Model {
 public:
  HalfModel() : Model(at::kCPU) {
    AddParameter("model.embed_tokens.weight", at::zeros({1, 2}));
    SetSlice("model.embed_tokens.weight", {{3, 2}, {2, 0}, {1, 2}});
    AddParameter("model.norm.weight", at::zeros({2}));
  }

  at::Tensor Loss(const Batch&) override { return {}; }
  Score Evaluate(const Batch&) override { return {}; }

  // Says something wrong.
  void SliceAs(const Slice& slice) { SetSlice("model.embed_tokens.weight", slice); }
};

const std::vector<float> kRows = {1, 2, 3, 4, 5, 6};
const std::string kSeven("\7\0\0\0\0\0\0\0", 8);

class WeightsTest : public ::testing::Test {
 protected:
  WeightsTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~WeightsTest() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::vector<TensorToStore>& tensors) const {
    std::vector<Safetensor> entries;
    for (const TensorToStore& tensor : tensors) {
      entries.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    }
    ASSERT_TRUE(WriteSafetensors(absl::StrCat(root_, "/", name), entries).ok());
  }

  void WriteIndex(const std::string& map) const {
    std::ofstream(root_ + "/model.safetensors.index.json")
        << R"({"metadata": {"total_size": 1}, "weight_map": {)" << map << "}}";
  }

  // `norm`: the model's norm, before and after.
  std::string Error(const std::string& path = "", std::vector<float> norm = {0, 0}) const {
    const absl::Status status = LoadWeights(path.empty() ? root_ : path, model_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(model_.Values(1), norm);
    return std::string(status.message());
  }

  const std::string root_ =
      fs::path(::testing::TempDir() + "/" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())
          .lexically_normal();
  const TensorToStore embedding_ = FloatsToStore("model.embed_tokens.weight", {3, 2}, kRows);
  const TensorToStore norm_ = FloatsToStore("model.norm.weight", {2}, {7, 8});
  const TensorToStore head_ = FloatsToStore("lm_head.weight", {3, 2}, kRows);
  const TensorToStore seen_ = {"seen", "I64", {}, kSeven};
  const SmallModel model_{/*tied=*/true};
  const SmallModel untied_{/*tied=*/false};
};

TEST_F(WeightsTest, DirectoryWithOneFile) {
  Write("model.safetensors", {embedding_, norm_, seen_});
  const absl::Status loaded = LoadWeights(root_, model_).status();
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(model_.Values(0), kRows);
  EXPECT_THAT(model_.Values(1), ElementsAre(7, 8));
  EXPECT_EQ(model_.buffers()[0].tensor.item<int64_t>(), 7);
}

TEST_F(WeightsTest, SeveralFilesByTheIndexAndHalvesConverted) {
  Write("a.safetensors",
        {{"model.norm.weight", "BF16", {2}, std::string("\x80\x3F\x00\xC0", 4)}, seen_});
  Write("b.safetensors", {embedding_, {"lm_head.weight", "F16", {3, 2}, std::string(12, '\x3C')}});
  Write("unrelated.safetensors", {norm_});
  WriteIndex(R"("model.norm.weight": "a.safetensors", "seen": "a.safetensors",
                "model.embed_tokens.weight": "b.safetensors", "lm_head.weight": "b.safetensors")");
  const absl::Status loaded = LoadWeights(root_, untied_).status();
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(untied_.Values(0), kRows);
  EXPECT_THAT(untied_.Values(1), ElementsAre(1, -2));
  EXPECT_FLOAT_EQ(untied_.Values(2)[0], 1.05859375F);
}

TEST_F(WeightsTest, FileThatTheIndexNamesAndIsMissingIsNamed) {
  Write("a.safetensors", {norm_});
  WriteIndex(R"("model.norm.weight": "a.safetensors", "seen": "b.safetensors")");
  EXPECT_THAT(Error(), HasSubstr(absl::StrCat("init_from: ", root_, ": b.safetensors is missing")));
}

TEST_F(WeightsTest, IndexThatContradictsTheFilesIsRefused) {
  Write("a.safetensors", {norm_, seen_});
  WriteIndex(R"("model.norm.weight": "a.safetensors")");
  EXPECT_THAT(Error(), HasSubstr("a.safetensors holds seen"));
  WriteIndex(R"("model.norm.weight": "a.safetensors", "seen": "a.safetensors",
                "more": "a.safetensors")");
  EXPECT_THAT(Error(), HasSubstr("a.safetensors does not hold more"));
  WriteIndex(R"("seen": "../a.safetensors")");
  EXPECT_THAT(Error(), HasSubstr("the file of seen is no name of a file here"));
  WriteIndex(R"("seen": 3)");
  EXPECT_THAT(Error(), HasSubstr("the file of seen"));
  std::ofstream(root_ + "/model.safetensors.index.json") << "{";
  EXPECT_THAT(Error(), HasSubstr("no JSON object with a weight_map"));
}

TEST_F(WeightsTest, DirectoryWithoutWeightsTellsWhatItLacks) {
  EXPECT_THAT(Error(), HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
}

TEST_F(WeightsTest, AllThatDiffersIsListed) {
  Write("w.safetensors", {FloatsToStore("model.embed_tokens.weight", {2, 2}, {1, 2, 3, 4}), norm_,
                          FloatsToStore("other", {1}, {1})});
  EXPECT_THAT(Error(root_ + "/w.safetensors"),
              HasSubstr("does not fit the model: model.embed_tokens.weight has shape [2, 2] and "
                        "needs [3, 2]; seen is missing; other is not in the model"));
}

TEST_F(WeightsTest, TiedModelTakesAHeadThatIsTheEmbedding) {
  Write("w.safetensors", {embedding_, norm_, head_, seen_});
  EXPECT_TRUE(LoadWeights(root_ + "/w.safetensors", model_).ok());
  EXPECT_EQ(model_.Values(0), kRows);
}

TEST_F(WeightsTest, TiedModelRefusesAnotherHead) {
  Write("w.safetensors",
        {embedding_, norm_, FloatsToStore("lm_head.weight", {3, 2}, {1, 2, 3, 4, 5, 7}), seen_});
  EXPECT_THAT(Error(root_ + "/w.safetensors"), HasSubstr("lm_head.weight is not in the model"));
}

TEST_F(WeightsTest, WhatIsNoWeightsFileIsToldApartByItsContents) {
  const std::pair<std::string, const char*> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS"},
      {"<!DOCTYPE html><html>", "the download has failed"},
      {std::string("GGUF\3\0\0\0", 8), "a GGUF file"},
      {std::string("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", 15), "before PyTorch 1.6"},
      {"weights", "neither a safetensors file nor one that torch.save wrote"},
      {"", "the file is empty"}};
  const std::string path = root_ + "/pytorch_model.bin";
  for (const auto& [contents, what] : files) {
    std::ofstream(path, std::ios::binary) << contents;
    EXPECT_THAT(Error(path), HasSubstr(what));
    EXPECT_THAT(Error(), HasSubstr(what)) << "found by the directory";
  }
}

TEST_F(WeightsTest, NamesThatWrappersMadeLongerAreTakenAndTold) {
  auto wrapped = [](TensorToStore tensor, const std::string& name) {
    tensor.name = name;
    return tensor;
  };
  Write("w.pth", {wrapped(embedding_, "module._orig_mod.model.embed_tokens.weight"),
                  wrapped(norm_, "model._orig_mod.norm.weight"), seen_});
  const auto notes = LoadWeights(root_ + "/w.pth", model_);
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_EQ(model_.Values(0), kRows);
  EXPECT_THAT(model_.Values(1), ElementsAre(7, 8));
  EXPECT_THAT(*notes, ElementsAre(HasSubstr("without what wrappers had added to 2 of them")));
}

TEST_F(WeightsTest, OfTwoNamesForOneTensorBothMustAgree) {
  TensorToStore again = FloatsToStore("module.model.norm.weight", {2}, {7, 9});
  Write("w.safetensors", {embedding_, norm_, again, seen_});
  EXPECT_THAT(Error(root_ + "/w.safetensors"),
              HasSubstr("are one tensor in the model and differ in the file"));
}

TEST_F(WeightsTest, WhatTheModelComputesIsPassedOver) {
  Write("w.safetensors", {embedding_, norm_, seen_,
                          FloatsToStore("model.layers.0.self_attn.rotary_emb.inv_freq", {1}, {1}),
                          FloatsToStore("h.0.attn.bias", {1, 1, 2, 2}, {1, 0, 1, 1})});
  const auto notes = LoadWeights(root_ + "/w.safetensors", model_);
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, ElementsAre(AllOf(HasSubstr("passed over"), HasSubstr("h.0.attn.bias"),
                                        HasSubstr("rotary_emb.inv_freq"))));
  Write("w.safetensors", {embedding_, norm_, seen_, FloatsToStore("h.0.attn.bias", {2}, {1, 0})});
  EXPECT_THAT(Error(root_ + "/w.safetensors", {7, 8}),
              HasSubstr("h.0.attn.bias is not in the model"))
      << "a bias that is none of a mask";
}

TEST_F(WeightsTest, QuantisedWeightsAreNotReadAsValues) {
  for (const char* const type : {"I8", "U8", "F8_E4M3", "BOOL"}) {
    Write("w.safetensors", {embedding_, {"model.norm.weight", type, {2}, "ab"}, seen_});
    EXPECT_THAT(Error(root_ + "/w.safetensors"),
                HasSubstr(absl::StrCat("model.norm.weight is of type ", type,
                                       " and needs F32: if these are quantised weights")));
  }
  Write("w.safetensors", {embedding_, norm_, FloatsToStore("seen", {}, {1})});
  EXPECT_THAT(Error(root_ + "/w.safetensors"), HasSubstr("seen is of type F32 and needs I64"));
}

TEST_F(WeightsTest, WhereThePrefixIsAllThatDiffersTheErrorSaysSo) {
  const TensorToStore inner = FloatsToStore("norm.weight", {2}, {7, 8});
  Write("w.safetensors", {inner});
  EXPECT_THAT(Error(root_ + "/w.safetensors"), HasSubstr("the model's names begin with model."));
  const TensorToStore outer = FloatsToStore("net.model.norm.weight", {2}, {7, 8});
  Write("w.safetensors", {outer});
  EXPECT_THAT(Error(root_ + "/w.safetensors"), HasSubstr("the file's names begin with net."));
}

// A model whose head and embedding are one tensor, and with a counted statistic.
class TiedModel : public Model {
 public:
  TiedModel() : Model(at::kCPU) {
    AddParameter("head.weight", AddParameter("embedding.weight", at::zeros({3, 2})));
    AddBuffer("norm.num_batches_tracked", at::zeros({}, at::kLong));
  }
  at::Tensor Loss(const Batch&) override { return {}; }
  Score Evaluate(const Batch&) override { return {}; }
};

TEST_F(WeightsTest, ATiedTensorHasBothNames) {
  const TiedModel model;
  ASSERT_EQ(model.parameters().size(), 1u);
  const TensorToStore embedding = FloatsToStore("embedding.weight", {3, 2}, kRows);
  const TensorToStore head = FloatsToStore("head.weight", {3, 2}, kRows);
  const TensorToStore other = FloatsToStore("head.weight", {3, 2}, {1, 2, 3, 4, 5, 7});
  const std::string path = root_ + "/w.safetensors";
  for (const std::vector<TensorToStore>& file :
       {std::vector<TensorToStore>{embedding}, {head}, {embedding, head}}) {
    Write("w.safetensors", file);
    const auto notes = LoadWeights(path, model);
    ASSERT_TRUE(notes.ok()) << notes.status();
    EXPECT_THAT(*notes, ElementsAre(HasSubstr("no num_batches_tracked")));
    EXPECT_EQ(model.parameters()[0].tensor[2][1].item<float>(), 6);
  }
  Write("w.safetensors", {embedding, other});
  EXPECT_THAT(std::string(LoadWeights(path, model).status().message()),
              HasSubstr("embedding.weight and head.weight are one tensor in the model"));

  ASSERT_TRUE(SaveWeights(path, model, /*save_nan=*/false).ok());
  const auto saved = SafetensorsFile::Open(path);
  ASSERT_TRUE(saved.ok());
  std::map<std::string, std::string> bytes;
  for (const Safetensor& one : saved->tensors()) bytes[one.name] = std::string(one.bytes);
  EXPECT_EQ(bytes.size(), 3u);
  EXPECT_EQ(bytes.at("head.weight"), bytes.at("embedding.weight"));
}

TEST_F(WeightsTest, NanIsNotExportedUnlessItIsWanted) {
  const TiedModel model;
  {
    const at::NoGradGuard no_grad;
    model.parameters()[0].tensor[1][0].fill_(std::numeric_limits<double>::quiet_NaN());
  }
  const std::string path = root_ + "/w.safetensors";
  const absl::Status status = SaveWeights(path, model, /*save_nan=*/false);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("embedding.weight has a value that is not"));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(SaveWeights(path, model, /*save_nan=*/true).ok());
  EXPECT_TRUE(fs::exists(path));
}

class CheckpointWeightsTest : public WeightsTest {
 protected:
  void Store(const std::vector<TensorToStore>& tensors) const {
    Manifest manifest;
    manifest.job_id = "job-0123456789ab";
    manifest.generation = 1;
    manifest.step = 2;
    manifest.ranks = 3;
    manifest.paceline_version = "1";
    manifest.torch_version = "2";
    manifest.job_spec = "{}";
    WriteCheckpoint(root_, manifest, tensors);
  }

  static TensorToStore OfModel(TensorToStore tensor) {
    tensor.name = absl::StrCat("model/", tensor.name);
    return tensor;
  }
};

TEST_F(CheckpointWeightsTest, OfACheckpointTheModelIsTakenFromAllShards) {
  Store({OfModel(embedding_), OfModel(norm_), OfModel(seen_),
         FloatsToStore("optimizer/exp_avg/model.norm.weight", {2}, {1, 1}),
         FloatsToStore("rank1/model/seen", {1}, {1})});
  const absl::Status loaded = LoadWeights(root_, model_).status();
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(model_.Values(0), kRows);
  EXPECT_THAT(model_.Values(1), ElementsAre(7, 8));
  EXPECT_EQ(model_.buffers()[0].tensor.item<int64_t>(), 7);
}

TEST_F(CheckpointWeightsTest, WhatDoesNotFitIsListedWithoutThePrefix) {
  Store({OfModel(embedding_), OfModel(head_)});
  EXPECT_THAT(Error(),
              HasSubstr("does not fit the model: model.norm.weight is missing; seen is missing; "
                        "lm_head.weight is not in the model"));
}

TEST_F(CheckpointWeightsTest, DamageIsFound) {
  Store({OfModel(embedding_), OfModel(norm_), OfModel(seen_)});
  DamageSlice(root_, "model/model.embed_tokens.weight", 2);
  const absl::Status status = LoadWeights(root_, model_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard-00002-of-00003.safetensors"));
}

TEST_F(WeightsTest, ASliceIsLoadedFromTheWholeTensor) {
  Write("w.safetensors", {FloatsToStore("model.embed_tokens.weight", {3, 2}, kRows),
                          FloatsToStore("model.norm.weight", {2}, {7, 8})});
  Manifest manifest;
  manifest.job_id = "job-0123456789ab";
  manifest.ranks = 2;
  manifest.job_spec = "{}";
  WriteCheckpoint(root_ + "/step", manifest,
                  {FloatsToStore("model/model.embed_tokens.weight", {3, 2}, kRows),
                   FloatsToStore("model/model.norm.weight", {2}, {7, 8})});
  for (const std::string& source : {root_ + "/w.safetensors", root_ + "/step"}) {
    const HalfModel model;
    const absl::Status loaded = LoadWeights(source, model).status();
    ASSERT_TRUE(loaded.ok()) << loaded;
    const at::Tensor embedding = model.parameters()[0].tensor.detach();
    EXPECT_EQ(embedding[0][0].item<float>(), 5);
    EXPECT_EQ(embedding[0][1].item<float>(), 6);
    EXPECT_EQ(model.parameters()[1].tensor.detach()[1].item<float>(), 8);
  }
}

TEST_F(WeightsTest, OfAShardedModelNoRankWritesItsSliceForTheWhole) {
  const absl::Status saved = SaveWeights(root_ + "/w.safetensors", HalfModel(), /*save_nan=*/true);
  EXPECT_EQ(saved.code(), absl::StatusCode::kFailedPrecondition) << saved;
  EXPECT_THAT(std::string(saved.message()), HasSubstr("paceline checkpoint export"));
  EXPECT_FALSE(fs::exists(root_ + "/w.safetensors"));
}

TEST_F(WeightsTest, ASliceHasTheSizesOfItsTensor) {
  HalfModel model;
  EXPECT_THROW(model.SliceAs({{3, 2}, {0, 0}, {3, 2}}), c10::ValueError);
  EXPECT_THROW(model.SliceAs({{3, 2}, {3, 0}, {1, 2}}), c10::ValueError);
  model.SliceAs({{3, 2}, {0, 0}, {1, 2}});  // Another position.
  EXPECT_EQ(model.parameters()[0].slice->offsets[0], 0);
}

}  // namespace
}  // namespace paceline
