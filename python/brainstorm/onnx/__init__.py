"""ONNX models, written as files of this library."""
