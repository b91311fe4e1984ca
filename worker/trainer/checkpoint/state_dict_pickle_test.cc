#include "worker/trainer/checkpoint/state_dict_pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"

namespace paceline {
namespace {

using testing::HasSubstr;

// data.pkl of torch.save(net.state_dict()), where net is Linear(3, 2) and the counter of a
// BatchNorm1d(2); written by torch 2.11.
const std::string& StateDict() {
  static const std::string* const pickle = new std::string(absl::HexStringToBytes(
      "800263636f6c6c656374696f6e730a4f726465726564446963740a710029527101285806000000776569"
      "676874710263746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a71032828"
      "580700000073746f72616765710463746f7263680a466c6f617453746f726167650a7105580100000030"
      "7106580300000063707571074b06747108514b004b024b038671094b034b0186710a8968002952710b74"
      "710c52710d580400000062696173710e6803282868046805580100000031710f68074b02747110514b00"
      "4b028571114b01857112896800295271137471145271155805000000636f756e74711668032828680463"
      "746f7263680a4c6f6e6753746f726167650a7117580100000032711868074b01747119514b0029298968"
      "002952711a74711b52711c757d711d58090000005f6d65746164617461711e68002952711f5800000000"
      "71207d7121580700000076657273696f6e71224b01737373622e"));
  return *pickle;
}

std::string WithByte(size_t offset, char byte) {
  std::string pickle = StateDict();
  pickle[offset] = byte;
  return pickle;
}

TEST(StateDictPickleTest, ReadsNamesShapesAndStorages) {
  const auto dict = ParseStateDictPickle(StateDict());
  ASSERT_TRUE(dict.ok()) << dict.status();
  EXPECT_EQ(dict->key, "");
  const std::vector<PickledTensor>& tensors = dict->tensors;
  ASSERT_EQ(tensors.size(), 3u);
  const PickledTensor& weight = tensors[0];
  EXPECT_EQ(weight.name, "weight");
  EXPECT_EQ(weight.storage_type, "FloatStorage");
  EXPECT_EQ(weight.storage_key, "0");
  EXPECT_EQ(weight.storage_elements, 6);
  EXPECT_EQ(weight.offset, 0);
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(weight.strides, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(tensors[1].name, "bias");
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{2}));
  const PickledTensor& count = tensors[2];
  EXPECT_EQ(count.name, "count");
  EXPECT_EQ(count.storage_type, "LongStorage");
  EXPECT_TRUE(count.shape.empty());
}

TEST(StateDictPickleTest, EveryTruncationIsAnError) {
  for (size_t size = 0; size < StateDict().size(); ++size) {
    EXPECT_EQ(ParseStateDictPickle(StateDict().substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

// With any byte changed, the reader survives, and each tensor it accepts is within its storage.
TEST(StateDictPickleTest, DamagedPicklesAreSurvived) {
  for (size_t offset = 0; offset < StateDict().size(); ++offset) {
    for (int byte = 0; byte < 256; ++byte) {
      const auto dict = ParseStateDictPickle(WithByte(offset, static_cast<char>(byte)));
      if (!dict.ok()) continue;
      for (const PickledTensor& tensor : dict->tensors) {
        int64_t last = tensor.offset;
        bool empty = false;
        for (size_t i = 0; i < tensor.shape.size(); ++i) {
          last += (tensor.shape[i] - 1) * tensor.strides[i];
          empty |= tensor.shape[i] == 0;
        }
        ASSERT_TRUE(empty || last < tensor.storage_elements) << offset << " " << byte;
      }
    }
  }
}

absl::Status ErrorOf(absl::string_view pickle) { return ParseStateDictPickle(pickle).status(); }

TEST(StateDictPickleTest, OtherClassesAreRefusedNotExecuted) {
  const absl::Status status =
      ErrorOf(absl::string_view("\x80\x02"
                                "cos\nsystem\nX\x04\0\0\0true\x85R.",
                                25));
  EXPECT_THAT(std::string(status.message()), HasSubstr("an object of os system"));
}

TEST(StateDictPickleTest, SomethingElseThanADictIsRefused) {
  EXPECT_THAT(std::string(ErrorOf(std::string("\x80\x02K\x01.", 5)).message()),
              HasSubstr("something else than a dictionary"));
}

// As training scripts save it: {first: 1.5, "args": an object, key: the state dict}. The loss
// beside it may be a tensor.
std::string Within(const std::string& key) {
  const std::string dict = StateDict().substr(2, StateDict().size() - 3);
  const std::string object = std::string("cargparse\nNamespace\n)\x81}X\1\0\0\0a]K\1asb", 35);
  const std::string length(1, static_cast<char>(key.size()));
  return std::string("\x80\4\x95\0\0\0\0\0\0\0\0}(\x8c\5first", 20) + "G\x3f\xf8" +
         std::string(6, '\0') + "\x8c\4args" + object + "\x8c" + length + key + dict +
         "\x8c\4lossh\x13u.";
}

TEST(StateDictPickleTest, FindsTheStateDictInAScriptsDictionary) {
  for (const char* const key : {"model", "state_dict", "weights_of_mine"}) {
    const auto dict = ParseStateDictPickle(Within(key));
    ASSERT_TRUE(dict.ok()) << dict.status();
    EXPECT_EQ(dict->key, key);
    EXPECT_EQ(dict->tensors.size(), 3u);
  }
}

// Its storage has no type of its own. Torch 2.11 wrote {"w": zeros(2) in float8_e4m3fn}.
TEST(StateDictPickleTest, TellsTheTypesThatStoragesDoNotHave) {
  const auto dict = ParseStateDictPickle(absl::HexStringToBytes(
      "80027d7100580100000077710163746f7263682e5f7574696c730a5f72656275696c645f74656e736f72"
      "5f76330a71022828580700000073746f72616765710363746f7263682e73746f726167650a556e747970"
      "656453746f726167650a71045801000000307105580300000063707571064b02747107514b004b028571"
      "084b018571098963636f6c6c656374696f6e730a4f726465726564446963740a710a2952710b63746f72"
      "63680a666c6f6174385f65346d33666e0a710c74710d52710e732e"));
  ASSERT_TRUE(dict.ok()) << dict.status();
  ASSERT_EQ(dict->tensors.size(), 1u);
  EXPECT_EQ(dict->tensors[0].storage_type, "float8_e4m3fn");
  EXPECT_EQ(dict->tensors[0].shape, (std::vector<int64_t>{2}));
}

}  // namespace
}  // namespace paceline
