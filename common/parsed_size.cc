#include "common/parsed_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

namespace paceline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Sizes in libprotobuf 3.21 on 64 bits, where a list or table of entries may have twice the needed
// room. A field takes up to 48 (a map), but most take 8.
constexpr size_t kMessage = 32;  // Its table, arena and presence bits.
constexpr size_t kField = 16;
constexpr size_t kEntry = 16;    // In a list: a number or a pointer.
constexpr size_t kText = 48;     // A string object, without longer contents.
constexpr size_t kUnknown = 32;  // A field that the type does not have.
constexpr int kMaxDepth = 100;   // The parser's limit.

class Scale {
 public:
  Scale(CodedInputStream* encoded, size_t limit) : encoded_(*encoded), limit_(limit) {}

  size_t total() const { return total_; }

  // The rest, up to the current limit of encoded_, is one message. False: stop counting.
  bool WeighMessage(const Descriptor& type, int depth) {
    if (depth > kMaxDepth) return false;
    if (!Add(kMessage + kField * static_cast<size_t>(type.field_count()))) return false;
    while (const uint32_t tag = encoded_.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (!WeighField(tag, field, depth)) return false;
    }
    return true;
  }

 private:
  bool Add(size_t bytes) {
    total_ += bytes;
    return total_ <= limit_;
  }

  bool WeighField(uint32_t tag, const FieldDescriptor* field, int depth) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      // A group is skipped with all its contents; each of them counts as an unknown field.
      const int before = encoded_.CurrentPosition();
      if (!WireFormatLite::SkipField(&encoded_, tag)) return false;
      const auto skipped = static_cast<size_t>(encoded_.CurrentPosition() - before);
      const size_t inside =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_START_GROUP
              ? kUnknown * skipped
              : 0;
      if (field == nullptr) return Add(kUnknown + inside);
      return Add((field->is_repeated() ? kEntry : 0) + inside);
    }
    int size = 0;
    if (!encoded_.ReadVarintSizeAsInt(&size)) return false;
    if (field == nullptr) return Add(kUnknown + kText + static_cast<size_t>(size)) && Skip(size);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const CodedInputStream::Limit outer = encoded_.PushLimit(size);
      if (!Add(kEntry) || !WeighMessage(*field->message_type(), depth + 1)) return false;
      if (encoded_.BytesUntilLimit() != 0) return false;
      encoded_.PopLimit(outer);
      return true;
    }
    // Either a list of numbers, with at least a byte each, or a text.
    const bool numbers = field->cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    return Add(numbers ? kEntry * static_cast<size_t>(size)
                       : kEntry + kText + static_cast<size_t>(size)) &&
           Skip(size);
  }

  bool Skip(int bytes) { return encoded_.Skip(bytes); }

  CodedInputStream& encoded_;
  const size_t limit_;
  size_t total_ = 0;
};

}  // namespace

size_t ParsedSize(const Descriptor& type, google::protobuf::io::ZeroCopyInputStream* encoded,
                  size_t limit) {
  CodedInputStream stream(encoded);
  Scale scale(&stream, limit);
  scale.WeighMessage(type, 0);
  return scale.total();
}

}  // namespace paceline
